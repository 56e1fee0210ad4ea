from __future__ import annotations

from pathlib import Path

import pytest

from machine import reproduce


def test_every_kind_of_difference_is_found(tmp_path: Path) -> None:
    def tree(name: str, content: str, mode: int, target: str) -> dict[str, str]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "same").write_text("x")
        (folder / "content").write_text(content)
        (folder / "mode").write_text("x")
        (folder / "mode").chmod(mode)
        (folder / "link").symlink_to(target)
        (folder / f"only-{name}").mkdir()
        return {path.name: reproduce.describe(path) for path in folder.iterdir()}

    found = reproduce.compare(tree("a", "1", 0o644, "x"), tree("b", "2", 0o600, "y"))
    assert set(found) == {"content", "mode", "link", "only-a", "only-b"}
    assert found["only-b"] == "only in the second"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/infinity/venv/lib/python3.12/site-packages/x/__pycache__/y.cpython-312.pyc", True),
        ("/etc/shadow", True),
        ("/opt/infinity/venv/lib/python3.12/site-packages/x/y.py", False),
        ("/usr/share/infinity/manifest.json", False),
        ("/usr/sbin/nginx", False),
    ],
)
def test_code_and_records_may_not_differ(path: str, *, expected: bool) -> None:
    assert (reproduce.reason(path) is not None) is expected


def test_the_list_is_in_the_document() -> None:
    document = (Path(reproduce.__file__).parents[1] / "docs/security.md").read_text()
    section = document.partition("## Reproducibility")[2]
    for why in reproduce.MAY_DIFFER:
        assert why in " ".join(section.split())
