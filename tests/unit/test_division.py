"""Two workers that shared the machines would take them from each other."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from appliance.run import run

REPO = Path(__file__).resolve().parents[2]
TESTS = """import pytest
@pytest.mark.parametrize("x", ["a@b", "tests/unit/", "c", "d"])
def test_{}(x): pass
"""
CONFTEST = (REPO / "tests/conftest.py").read_text()


def test_all_that_share_the_machines_are_one_workers(tmp_path: Path) -> None:
    """As pytest-xdist divides a tree of this shape, with the project's own hook."""
    hook = CONFTEST[CONFTEST.index("def pytest_xdist_make_scheduler") :].partition("\n\n\n")[0]
    names = ("boot/test_a", "boot/test_b", "clients/test_c", "unit/test_d", "unit/test_e")
    for name in names:
        path = tmp_path / "tests" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TESTS.format(path.stem[-1]))
    imports = "from typing import Any\nimport pytest\nfrom tests.division import Division\n"
    (tmp_path / "tests/conftest.py").write_text(imports + hook + "\n")
    (tmp_path / "tests/division.py").write_text((REPO / "tests/division.py").read_text())
    pytest = [sys.executable, "-m", "pytest", "--import-mode=importlib", "-v"]
    pytest += ["--numprocesses=2", "--dist=loadscope", "-p", "no:cacheprovider"]
    said = run(pytest, cwd=tmp_path).stdout
    workers = defaultdict(set)
    for worker, file in re.findall(r"^\[(gw\d)\].*PASSED tests/(\S+?)\.py::", said, re.MULTILINE):
        workers[file].add(worker)
    assert set(workers) == set(names), said
    machines = workers["boot/test_a"] | workers["boot/test_b"] | workers["clients/test_c"]
    assert len(machines) == 1, said
    assert set.union(*workers.values()) == {"gw0", "gw1"}, said
