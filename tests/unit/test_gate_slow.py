"""Clients that take their time: nginx waits for them up to a limit, the server never does.

The limits are shortened here; `make audit` has slow clients meet the real ones.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_harness import HOST, Gate, bearer, parse, running_gate
from gate_stub import Stub
from lint_tools import tool

from appliance.run import run

HELD = {2 * 192 * 1024}  # the kernel doubles it for its own records
HEAD = f"POST /large HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {bearer()[1]}\r\n"


@contextlib.contextmanager
def impatient(root: Path, stub: Stub, limit: str) -> Iterator[Gate]:
    """A gate with one of its limits shortened, so that the test is short."""
    name, _, _ = limit.partition(" ")
    with running_gate(
        root, stub.port, {"infinity/timeouts.conf": (limit, f"{name} 300ms")}
    ) as gate:
        yield gate


def is_dropped(connection: socket.socket, drip: bytes) -> bool:
    """Whether nginx hangs up, or says 408, on somebody who sends a byte now and then."""
    connection.settimeout(0.05)
    for byte in itertools.islice(itertools.cycle(drip), 400):
        try:
            connection.sendall(bytes([byte]))
            received = connection.recv(4096)
        except TimeoutError:
            continue
        except OSError:
            return True
        return received == b"" or received.startswith(b"HTTP/1.1 408 ")
    return False


def test_headers_that_come_byte_by_byte_are_not_waited_for(tmp_path: Path, own_stub: Stub) -> None:
    with (
        impatient(tmp_path / "root", own_stub, "client_header_timeout 10s") as gate,
        gate.connect() as slow,
    ):
        slow.sendall(HEAD.encode())
        assert is_dropped(slow, b"x")
        assert gate.get("/models", bearer()).status == 200


@pytest.mark.parametrize("start", [b"", b"{"])
def test_a_body_that_does_not_come_is_not_waited_for(
    tmp_path: Path, own_stub: Stub, start: bytes
) -> None:
    with (
        impatient(tmp_path / "root", own_stub, "client_body_timeout 15s") as gate,
        gate.connect() as slow,
    ):
        slow.sendall(f"{HEAD}Content-Length: 100\r\n\r\n".encode() + start)
        assert slow.recv(4096)[:13] in {b"", b"HTTP/1.1 408 "}
        assert own_stub.seen == []


def test_who_does_not_read_the_answer_is_dropped_and_the_server_free(
    tmp_path: Path, own_stub: Stub
) -> None:
    with (
        impatient(tmp_path / "root", own_stub, "send_timeout 30s") as gate,
        gate.connect() as slow,
    ):
        slow.sendall(f"{HEAD}Content-Length: 2\r\n\r\n{{}}".encode())
        head = parse(slow.recv(4096), "HEAD")
        logged = gate.log_line(head.header("X-Request-ID"))
        assert logged["bytes"] < 32 << 20
        assert [seen.path for seen in own_stub.seen] == ["/large"]


def test_the_kernel_holds_little_of_one_connection(gate: Gate) -> None:
    head = f"POST /x HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {32 * 2**20}\r\n\r\n"
    with gate.connect() as connection:
        connection.sendall(head.encode() + bytes(16 * 2**20))  # by itself it grows with use
        name = f"sport = :{connection.getpeername()[1]} and dport = :{connection.getsockname()[1]}"
        assert held("-tn", name) == HELD


def test_so_do_connections_to_the_plain_port(gate: Gate) -> None:
    assert held("-tln", f"sport = :{gate.http_port}") == HELD


def held(*which: str) -> set[int]:
    """How many bytes the kernel may hold of these sockets."""
    said = run([tool("ss", "apt-get install iproute2"), "-mH", *which]).stdout
    return {int(size) for size in re.findall(r"\brb(\d+)", said)}
