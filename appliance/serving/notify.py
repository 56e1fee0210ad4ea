"""systemd's notification protocol (sd_notify(3)): one datagram, no library."""

from __future__ import annotations

import os
import socket


def notify(*lines: str) -> None:
    """Tell systemd ``READY=1``, ``STATUS=…``, ``WATCHDOG=1``; nothing where systemd did not ask.

    A lost notification is systemd's to judge (it restarts what stays silent), so a failed
    send is not an error here.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # the abstract namespace
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        try:
            sock.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            print(f"systemd could not be notified: {error.strerror}", flush=True)


def watchdog_seconds() -> float | None:
    """WatchdogSec of the unit, or None where no watchdog runs."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isdecimal() else None
