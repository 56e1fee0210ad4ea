"""Head room: what is left of the disk and of the memory."""

from __future__ import annotations

import os
from pathlib import Path

from appliance.status.report import Disk, Memory
from appliance.status.units import Shown

PLACES = ("/", "/var", "/var/log", "/var/lib/infinity", "/tmp", "/run")  # noqa: S108 - looked at


def disks(root: Path) -> tuple[Disk, ...]:
    """Each file system below the places that matter, once."""
    found: dict[int, Disk] = {}
    for place in PLACES:
        path = root / place.lstrip("/")
        try:
            device, said = path.stat().st_dev, os.statvfs(path)
        except OSError:
            continue
        inodes = 100 * said.f_favail // said.f_files if said.f_files else 100
        size, free = said.f_frsize * said.f_blocks, said.f_frsize * said.f_bavail
        found.setdefault(device, Disk(place, size, free, inodes))
    return tuple(found.values())


def memory(server: Shown, meminfo: Path = Path("/proc/meminfo")) -> Memory:
    """The machine's, and the server's share of it.

    Raises:
        OSError, ValueError, KeyError: the kernel says nothing.
    """
    lines = [line.split() for line in meminfo.read_text("ascii").splitlines()]
    kib = {words[0].rstrip(":"): int(words[1]) for words in lines}
    return Memory(
        size=1024 * kib["MemTotal"],
        available=1024 * kib["MemAvailable"],
        server=server.number("MemoryCurrent"),
        server_limit=server.number("MemoryMax"),
    )
