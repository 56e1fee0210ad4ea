"""What the processes of a service's control group hold in memory, as they go.

Anonymous memory: what a leak would grow. Pages of libraries are also resident, but the kernel drops
and reads them again as it pleases, more so on a computer that others use too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from machine.instance import Machine

EVERY = 3.0  # seconds
ANONYMOUS = """
group=$(systemctl show --property=ControlGroup --value infinity.service)
for pid in $(cat /sys/fs/cgroup/$group/cgroup.procs); do cat /proc/$pid/status; done |
    awk '/^RssAnon/ { kib += $2 } END { print kib }'
"""


@dataclass(frozen=True)
class Sample:
    """Megabytes at a moment of the monotonic clock."""

    moment: float
    megabytes: float


def anonymous(machine: Machine) -> float:
    """Megabytes of the server's processes, backed by no file."""
    return int(machine.exec(ANONYMOUS).stdout) / 1024


@contextmanager
def watched(machine: Machine) -> Iterator[list[Sample]]:
    """Look again and again while the body runs."""
    samples: list[Sample] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(EVERY):
            samples.append(Sample(time.monotonic(), anonymous(machine)))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()
