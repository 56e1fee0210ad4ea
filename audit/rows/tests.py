"""Controls that the test suite tries: a line here makes one a row of the table."""

from __future__ import annotations

import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from audit.row import Row, judged
from machine.instance import Machine
from machine.names import CHECKOUT


@dataclass(frozen=True)
class Tried:
    """A control and the files or folders of tests that try to break it."""

    control: str
    paths: tuple[str, ...]


TRIED = (
    Tried("a hostile model in the server's place", ("tests/boot/test_hardening_model.py",)),
    Tried("sshd, users' rights, cores, compilers", ("tests/boot/test_hardening_login.py",)),
    Tried("a security update of nginx, live", ("tests/boot/test_hardening_updates.py",)),
    Tried("the instance's identity and its secrets",
          ("tests/boot/test_identity.py", "tests/boot/test_secrecy.py")),
    Tried("what the network sees and services reach", ("tests/boot/test_surface.py",)),
)  # fmt: skip


def rows(_: Machine) -> Iterator[Row]:
    """One run of pytest, so that its machines boot once; they are its own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        paths = [path for tried in TRIED for path in tried.paths]
        argv = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", *paths]
        done = run(argv, check=False, timeout=None, cwd=CHECKOUT)
        if not report.exists():
            raise ApplianceError(f"pytest did not run: {done.stdout.strip()[-200:]}")
        # Our own file, just written.
        cases = ET.parse(report).iter("testcase")  # noqa: S314
        ended = [(_path(case), _passed(case)) for case in cases]
    for tried in TRIED:
        mine = [passed for path, passed in ended if path.startswith(tried.paths)]
        measured = f"{sum(mine)} of {len(mine)} passed"
        yield judged(tried.control, "pytest", "every attack refused", measured,
                     passed=bool(mine) and all(mine))  # fmt: skip


def _path(case: ET.Element) -> str:
    """tests/boot/test_x.py of a case, whose class name is the module's, dotted."""
    return case.attrib["classname"].replace(".", "/") + ".py"


def _passed(case: ET.Element) -> bool:
    """A skipped test has shown nothing."""
    return not any(child.tag in {"failure", "error", "skipped"} for child in case)
