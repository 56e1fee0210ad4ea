"""The process that keeps one machine: boots it, and boots it again when it reboots.

Run as ``python3 -m machine.supervisor NAME``, detached. It ends when the machine powers off;
SIGTERM powers the machine off.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

from machine import cgroups, network, nspawn, pids, record
from machine.names import Place, place

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The second makes the settings of its own network, and no other of the kernel's, the machine's.
NSPAWN = {
    "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1",
    "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
}


def main() -> None:
    here = place(sys.argv[1])
    pids.remember(here.supervisor, os.getpid())
    while boot(here) == nspawn.REBOOT_STATUS:
        network.configure(here, record.load(here).index)


def boot(here: Place) -> int:
    """Boot the machine and wait for its end; returns nspawn's exit status."""
    own_group = not cgroups.managed_by_systemd()
    if own_group:
        cgroups.create(here.full)

    def prepare() -> None:
        if own_group:
            cgroups.join(here.full)

    with here.console.open("ab") as console:
        process = subprocess.Popen(
            nspawn.boot_argv(here),
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            env={"PATH": PATH, **NSPAWN},
            preexec_fn=prepare,  # noqa: PLW1509 - this process has one thread
        )
    pids.remember(here.nspawn, process.pid)

    def forward(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    signal.signal(signal.SIGTERM, forward)
    return process.wait()


if __name__ == "__main__":
    main()
