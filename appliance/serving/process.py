"""What this process says of itself to the kernel: its name, its threads."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_PR_SET_NAME = 15  # prctl(2)


def set_name(name: str) -> None:
    """Name the process in `ss`, `ps -o comm` and the journal (15 bytes at most)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def physical_cores(cpus: Path = Path("/sys/devices/system/cpu")) -> int:
    """Cores this process may run on, hyper-threads counted once.

    Two threads of one core share its multipliers, so a matrix product gains nothing from
    the second one and loses the cache.
    """
    allowed = os.sched_getaffinity(0)
    cores = set()
    for cpu in allowed:
        siblings = cpus / f"cpu{cpu}/topology/thread_siblings_list"
        cores.add(siblings.read_text().strip() if siblings.is_file() else str(cpu))
    return max(1, len(cores))
