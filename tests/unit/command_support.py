"""Running an operator's command on a disk below a folder, as a shell on an instance does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import IO

from firstboot_support import Disk
from gate_harness import nginx_program


@dataclass(frozen=True)
class Ran:
    """What a command left. ``error`` is all of standard error."""

    status: int
    output: str
    error: str


def ran(
    disk: Disk,
    command: str,
    *words: str,
    stdin: str | bytes = "",
    stdout: IO[str] | None = None,
) -> Ran:
    """Run ``infinity-…``, given as its module's name, to its end; ``stdout`` is where it prints."""
    raw = stdin.encode() if isinstance(stdin, str) else stdin
    where = ["--root", str(disk.paths.root), "--nginx", nginx_program()]
    done = subprocess.run(
        [sys.executable, "-m", f"appliance.commands.{command}", *where, *words],
        input=raw,
        stdout=stdout or subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    return Ran(done.returncode, (done.stdout or b"").decode(), done.stderr.decode())


def state(disk: Disk) -> dict[str, bytes]:
    """Every file below /etc, /root and /var, by path: what a failed command must leave as it is."""
    root = disk.paths.root
    files = [
        path
        for folder in ("etc", "root", "var")
        for path in (root / folder).rglob("*")
        if path.is_file() and "log" not in path.parts
    ]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def break_nginx(disk: Disk) -> None:
    """As an operator's slip of the pen: from now on nginx refuses its configuration."""
    (disk.paths.nginx / "infinity/tls.conf").write_text("ssl_protocols TLSv9;\n")
