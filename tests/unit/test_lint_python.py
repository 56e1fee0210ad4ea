"""ruff and mypy, as everybody runs them."""

from __future__ import annotations

import os

import pytest
from lint_tools import REPO, tool

from appliance.run import run

DEVELOPMENT = "pip install --require-hashes -r packer/locks/dev-3.11.txt"


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]])
def test_ruff_finds_nothing(arguments: list[str]) -> None:
    done = run([tool("ruff", DEVELOPMENT), *arguments, "."], cwd=REPO, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Tests are no packages: the modules of one folder see each other, our packages, and what pytest's
# pythonpath names. What is run as `python -m tests.bench` and its like has whole names.
TESTS = sorted(str(p.relative_to(REPO)) for p in (REPO / "tests").iterdir() if any(p.glob("*.py")))
WHOLE_NAMES = ["tests/bench", "tests/fleet", "tests/soak"]


@pytest.mark.parametrize("folder", [".", *TESTS])
def test_mypy_finds_nothing(folder: str) -> None:
    what = ["appliance", "audit", "firstboot", "machine"]
    if folder != ".":
        what = sorted(str(path) for path in (REPO / folder).glob("*.py"))
    bases = ["."] if folder in WHOLE_NAMES else [folder, "tests/unit", "tests/boot", "."]
    done = run(
        [tool("mypy", DEVELOPMENT), "--strict", "--explicit-package-bases", *what],
        cwd=REPO,
        env={**os.environ, "MYPYPATH": ":".join(bases)},
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
