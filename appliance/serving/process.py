"""What this process says of itself to the kernel and the C library: name, threads, heaps."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

_PR_SET_NAME = 15  # prctl(2)
_M_ARENA_MAX = -8  # mallopt(3)

_Result = TypeVar("_Result")


def set_name(name: str) -> None:
    """Name the process in `ss`, `ps -o comm` and the journal (15 bytes at most)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def use_one_heap() -> None:
    """Have all threads allocate from one heap; to be called before there are others.

    By default each thread has its own, which keeps the most it ever held: 40 MB more after
    some bulk loads, and no faster, for the threads hold Python's lock by turns anyway.
    """
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Return what was freed to the kernel, also from below what is in use."""
    ctypes.CDLL(None).malloc_trim(0)


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


def in_passing_thread(work: Callable[[], _Result]) -> _Result:
    """Do it in a thread that ends, and with it the OpenMP threads that PyTorch starts for it.

    Each thread that runs PyTorch has its own. Once there are more of them than cores, none waits
    for the next parallel region awake any more, not even for a moment: 15 % of a short query.
    """
    with ThreadPoolExecutor(1) as once:
        return once.submit(work).result()
