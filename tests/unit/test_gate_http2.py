"""The same gate over HTTP/2, as browsers and curl speak it."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from gate_harness import HOST, Gate, basic, bearer
from gate_stub import Stub
from lint_tools import tool

from appliance.run import Completed, run
from audit.attacks import http2

ENDLESS = 1000
REFUSED = (7).to_bytes(4, "big")  # RFC 9113, section 7
PONG = http2.frame(http2.PING, http2.ACK, 0, bytes(8))


def curl(gate: Gate, path: str, *options: str, host: str = HOST) -> Completed:
    """Prints the HTTP version and the status. Made-up credentials may stand in argv."""
    target = f"https://{host}:{gate.https_port}{path}"
    resolve = f"{host}:{gate.https_port}:127.0.0.1"
    shown = "%{http_version} %{http_code}"
    fixed = ["--http2", "-s", "-o", "/dev/null", "-w", shown, "--resolve", resolve]
    trust = ["--cacert", str(gate.certificate)] if host == HOST else ["--insecure"]
    program = tool("curl", "apt-get install curl")
    return run([program, *fixed, *trust, *options, target], check=False)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (bearer(), 200),
        (basic(), 200),
        (bearer(bearer()[1].upper()), 401),
        (basic(password="x"), 401),
        (("X-Nothing", "1"), 401),
    ],
)
def test_credentials_count_as_over_http_1(gate: Gate, header: tuple[str, str], status: int) -> None:
    assert curl(gate, "/models", "-H", ": ".join(header)).stdout == f"2 {status}"


def test_a_cross_origin_post_is_403(gate: Gate, stub: Stub) -> None:
    sent = ("-H", ": ".join(bearer()), "-H", "Origin: https://evil.example", "-d", "{}")
    assert curl(gate, "/embeddings", *sent).stdout == "2 403"
    assert stub.seen == []


def test_an_unknown_authority_gets_no_answer_but_the_probes(gate: Gate, stub: Stub) -> None:
    refused = curl(gate, "/health", host="evil.localhost")
    assert refused.returncode != 0
    assert refused.stdout.endswith(" 000")
    assert stub.seen == []
    assert curl(gate, "/readyz", host="evil.localhost").stdout == "2 200"


def test_streams_that_are_reset_at_once_end_the_connection(gate: Gate, stub: Stub) -> None:
    """Rapid reset."""
    request = http2.block(HOST, "/v1/models")
    sent = until_it_ends(gate, lambda count: http2.resets(1 + 2 * http2.BATCH * count, request))
    assert sent * http2.BATCH <= 1000 + http2.BATCH
    assert stub.seen == []
    assert gate.get("/models", bearer()).status == 200


def test_headers_that_never_end_end_the_connection(gate: Gate, stub: Stub) -> None:
    """A flood of CONTINUATION frames: it does not get to a megabyte."""
    begin = http2.frame(http2.HEADERS, http2.END_STREAM, 1, http2.block(HOST, "/v1/models"))
    sent = until_it_ends(gate, lambda count: http2.more_headers() if count else begin)
    assert sent < 64
    assert stub.seen == []
    assert gate.get("/models", bearer()).status == 200


def test_one_connection_has_few_requests_under_way(gate: Gate) -> None:
    key = http2.literal(b"authorization", bearer()[1].encode())
    begun = http2.block(HOST, "/v1/embeddings", http2.POST) + key
    heads = [http2.frame(http2.HEADERS, http2.END_HEADERS, 1 + 2 * n, begun) for n in range(40)]
    with gate.connect(protocol="h2") as connection:
        http2.greet(connection)
        connection.sendall(b"".join(heads) + http2.frame(http2.PING, 0, 0, bytes(8)))
        received = until_pong(connection)
    assert received is not None
    assert frames(received).count((http2.RST_STREAM, REFUSED)) == 40 - 32


def frames(received: bytes) -> list[tuple[int, bytes]]:
    """(type, payload) of each."""
    found = []
    while received:
        length = int.from_bytes(received[:3], "big")
        found.append((received[3], received[9 : 9 + length]))
        received = received[9 + length :]
    return found


def until_it_ends(gate: Gate, part: Callable[[int], bytes]) -> int:
    """How many parts are taken before nginx hangs up; each waits for a round trip."""
    with gate.connect(protocol="h2") as connection:
        http2.greet(connection)
        for count in range(ENDLESS):
            try:
                connection.sendall(part(count) + http2.frame(http2.PING, 0, 0, bytes(8)))
                if until_pong(connection) is None:
                    return count
            except OSError:
                return count
    pytest.fail("nginx goes on with it for ever")


def until_pong(connection: socket.socket) -> bytes | None:
    """What comes up to the answer to a PING; None when the connection is ended instead."""
    received = b""
    while PONG not in received:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        received += chunk
    return received
