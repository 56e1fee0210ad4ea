"""Remembering a process so that only it is ever signalled, not a later one with its number."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path

from appliance.files import write_atomic


def remember(path: Path, pid: int) -> None:
    write_atomic(path, json.dumps({"pid": pid, "started": _started(pid)}), 0o600)


def alive(path: Path) -> int | None:
    """The process that was remembered, if it still runs."""
    try:
        saved = json.loads(path.read_text())
        pid = int(saved["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if saved["started"] is not None and _started(pid) == saved["started"] else None


def kill(path: Path, number: signal.Signals = signal.SIGKILL, patience: float = 5.0) -> None:
    """Signal the remembered process, if it runs, and wait for its end."""
    pid = alive(path)
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    deadline = time.monotonic() + patience
    while alive(path) and time.monotonic() < deadline:
        time.sleep(0.01)


def _started(pid: int) -> str | None:
    """The boot and the clock tick a process started at; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # after the name, which may hold anything
    return None if fields[0] == "Z" else f"{boot}/{fields[19]}"
