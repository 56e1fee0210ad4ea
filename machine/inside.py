"""Running commands in a machine, from a program and from a terminal."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.errors import ApplianceError
from machine import nspawn


@dataclass(frozen=True)
class Finished:
    """What a command left: its exit status and its output, as bytes and as text."""

    returncode: int
    raw_stdout: bytes
    raw_stderr: bytes

    @property
    def stdout(self) -> str:
        return self.raw_stdout.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.raw_stderr.decode(errors="replace")


def run(
    leader: int,
    command: Sequence[str],
    stdin: str | bytes | None,
    *,
    user: str,
    check: bool,
    timeout: float | None,
) -> Finished:
    """Run a command and collect its output; see ``Machine.exec``."""
    unit = new_unit()
    argv = nspawn.exec_argv(leader, command, user=user, unit=unit, terminal=None)
    raw = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        done = subprocess.run(
            argv,
            input=raw,
            stdin=subprocess.DEVNULL if raw is None else None,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        stop(leader, unit)
        raise ApplianceError(f"`{command[0]}` in the machine took over {timeout:g} s.") from error
    finished = Finished(done.returncode, done.stdout, done.stderr)
    if check and done.returncode != 0:
        said = (finished.stderr.strip() or finished.stdout.strip())[-2000:]
        raise ApplianceError(
            f"{' '.join(command)[:200]!r} in the machine failed with status "
            f"{done.returncode}: {said}"
        )
    return finished


def attach(leader: int, command: Sequence[str], *, user: str = "root") -> int:
    """Run a command on this process's own standard streams; returns its exit status."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    terminal = os.environ.get("TERM", "linux") if all(map(os.isatty, (0, 1, 2))) else None
    for stream in streams[1:]:
        stream.flush()
    unit = new_unit()
    argv = nspawn.exec_argv(leader, command, user=user, unit=unit, terminal=terminal)
    process = subprocess.Popen(argv)
    try:
        return process.wait()
    except KeyboardInterrupt:
        stop(leader, unit)
        process.kill()
        return 130  # as a shell reports SIGINT


def stop(leader: int, unit: str) -> None:
    """End a command whose caller has gone; systemd would let it run on."""
    enter = ["nsenter", f"--target={leader}", "--mount", "--net", "--pid", "--"]
    subprocess.run(
        [*enter, "systemctl", "kill", "--signal=KILL", unit],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=10,
    )


def new_unit() -> str:
    return f"exec-{secrets.token_hex(4)}.service"
