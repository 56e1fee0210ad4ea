"""A burst of bad logins: refused before it costs a hash, and nobody with a key notices."""

from __future__ import annotations

import time

from gate_harness import HOST, KEY, Gate, basic, bearer, exchange, parse

BURST = 600


def pipelined(header: tuple[str, str], count: int) -> bytes:
    one = f"GET /models HTTP/1.1\r\nHost: {HOST}\r\n{header[0]}: {header[1]}\r\n"
    return (one + "\r\n").encode() * (count - 1) + (one + "Connection: close\r\n\r\n").encode()


def statuses(raw: bytes) -> list[int]:
    return [int(part[:3]) for part in raw.split(b"HTTP/1.1 ")[1:]]


def test_a_burst_of_bad_logins_is_429_while_keys_are_served(own_gate: Gate) -> None:
    with own_gate.connect() as connection:
        raw = exchange(connection, pipelined(basic(password="x"), BURST))
    found = statuses(raw)
    assert set(found) == {401, 429}
    assert len(found) == BURST
    assert found.count(429) > found.count(401)

    limited = parse(raw[raw.index(b"HTTP/1.1 429") :])
    assert limited.json()["error"]["code"] == "rate_limit_exceeded"
    assert int(limited.header("Retry-After")) > 0
    assert own_gate.get("/models", bearer()).status == 200
    assert own_gate.get("/models", bearer(KEY + "0")).status == 401
    assert own_gate.get("/models").status == 401
    assert own_gate.get("/healthz").status == 200

    deadline = time.monotonic() + 60
    while own_gate.get("/models", basic()).status != 200:
        assert time.monotonic() < deadline, "the right login is locked out for good"
        time.sleep(0.2)


def test_requests_with_a_key_good_or_bad_are_never_limited(own_gate: Gate) -> None:
    for header, status in ((bearer(), 200), (bearer(KEY + "0"), 401)):
        with own_gate.connect() as connection:
            found = statuses(exchange(connection, pipelined(header, BURST)))
        assert found == [status] * BURST
