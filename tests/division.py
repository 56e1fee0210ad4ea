"""How all tests are divided among workers."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it has no types


class Division(LoadScopeScheduling):  # type: ignore[misc]  # as above
    """Which tests are one worker's: all that share the machines; else those of a file.

    (``--dist loadgroup`` ignores its marks with pytest 9.2: pytest-dev/pytest-xdist#1386.)
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return path if path.startswith("tests/unit/") else "machines"
