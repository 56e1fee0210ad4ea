"""Processes that are started one by one and end together."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from appliance.errors import ApplianceError
from machine.names import CHECKOUT

LAST_LINES = 12
PATIENCE = 5.0  # seconds between SIGTERM and SIGKILL


class Group:
    """Named processes, each with a log file of its own in one folder."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._members: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: Sequence[str | Path], env: Mapping[str, str]) -> None:
        """Start one, out of the reach of the terminal's Ctrl-C: ``stop`` ends it in order."""
        with self.log(name).open("wb") as log:
            self._members[name] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=dict(env),
                cwd=CHECKOUT,
                start_new_session=True,
            )

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def check(self) -> None:
        """Raise ApplianceError, with what it said last, when one has ended."""
        for name, process in self._members.items():
            if process.poll() is not None:
                lines = self.log(name).read_text(errors="replace").splitlines()[-LAST_LINES:]
                raise ApplianceError(
                    f"The {name} ended with status {process.returncode}. Its last lines:\n"
                    + "\n".join(f"    {line}" for line in lines),
                    f"All of it is in {self.log(name)}.",
                )

    def stop(self) -> None:
        """End all, the last started first."""
        for process in reversed(self._members.values()):
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def group(logs: Path) -> Iterator[Group]:
    """A group that is stopped at the end, however that comes."""
    logs.mkdir(parents=True, exist_ok=True)
    made = Group(logs)
    try:
        yield made
    finally:
        made.stop()
