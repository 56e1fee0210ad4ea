"""`python -m appliance.status.reach GROUP ADDRESS…`: what can be reached from a control group.

It joins the group, tries each address and prints a verdict a line. In a process of its own,
because it stays in the group.
"""

from __future__ import annotations

import errno
import select
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

BLOCKED, OPEN, NO_ROUTE = "blocked", "open", "no route"
PORT = 80
PATIENCE = 0.2  # seconds for all connections; one that nothing stops takes far less
_UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


def main(arguments: list[str]) -> None:
    group, *addresses = arguments
    Path(group, "cgroup.procs").write_text("0")  # 0: the process that writes
    for address, verdict in verdicts(addresses).items():
        print(f"{address} {verdict}")


def verdicts(addresses: Sequence[str]) -> dict[str, str]:
    """Send each a datagram and ask each for a connection.

    A packet that the group's filter stops is an error at once (EPERM); a datagram that leaves is
    proof that nothing stops it, whether or not anybody answers.
    """
    found = {address: datagram(address) for address in addresses}
    blocked = [address for address in addresses if found[address] == BLOCKED]
    return found | dict.fromkeys(answering(blocked), OPEN)


def datagram(address: str) -> str:
    try:
        with socket.socket(_family(address), socket.SOCK_DGRAM) as door:
            door.sendto(b"", (address, PORT))
    except PermissionError:
        return BLOCKED
    except OSError as error:
        if error.errno in _UNREACHABLE:
            return NO_ROUTE
        raise
    return OPEN


def answering(addresses: Sequence[str]) -> list[str]:
    """Those that accept a TCP connection, or refuse it: all are asked at once."""
    waiting: dict[int, tuple[str, socket.socket]] = {}
    answered = []
    watch = select.poll()
    for address in addresses:
        door = socket.socket(_family(address), socket.SOCK_STREAM)
        door.setblocking(False)
        door.connect_ex((address, PORT))
        watch.register(door, select.POLLOUT)
        waiting[door.fileno()] = (address, door)
    end = time.monotonic() + PATIENCE
    while waiting and (left := end - time.monotonic()) > 0:
        for descriptor, _ in watch.poll(1000 * left):
            address, door = waiting.pop(descriptor)
            watch.unregister(descriptor)
            if door.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in {0, errno.ECONNREFUSED}:
                answered.append(address)
            door.close()
    for _, door in waiting.values():
        door.close()
    return answered


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


if __name__ == "__main__":
    main(sys.argv[1:])
