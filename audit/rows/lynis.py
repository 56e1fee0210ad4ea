"""lynis inside the machine: the distribution's package, unpacked where nothing else is."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from audit.row import Row, judged
from machine.instance import Machine

BAR = 80
FILES = ("/usr/sbin/lynis", "/usr/share/lynis", "/etc/lynis")


def rows(machine: Machine) -> Iterator[Row]:
    copy_in(machine)
    machine.exec(["lynis", "audit", "system", "--quick", "--no-colors"], check=False, timeout=600)
    report = machine.exec(["cat", "/var/log/lynis-report.dat"]).stdout.splitlines()
    index = next(int(line.partition("=")[2]) for line in report if line.startswith("hardening_ind"))
    warnings = sum(line.startswith("warning[]") for line in report)
    yield judged("the operating system", "lynis audit system", f">= {BAR}", f"{index}",
                 passed=index >= BAR)  # fmt: skip
    yield judged("the operating system's warnings", "lynis audit system", "none", f"{warnings}",
                 passed=not warnings)  # fmt: skip


def copy_in(machine: Machine) -> None:
    """The host's lynis into the machine, which has no such package and gets none."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in FILES:
            archive.add(Path(path))
    machine.exec(["tar", "-x", "-C", "/"], packed.getvalue())
