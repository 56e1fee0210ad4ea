"""Floods: wrong logins cost hashes up to a limit, probes reach the server once a second."""

from __future__ import annotations

import time

import pytest
from gate_harness import HOST, KEY, Gate, basic, bearer, exchange, parse
from gate_stub import Stub

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


def test_wrong_logins_from_two_whole_networks_leave_room_for_others(own_gate: Gate) -> None:
    sources = [f"127.0.{network}.{number}" for number in range(1, 9) for network in (7, 8)]
    let_in, seconds = wrong_logins(own_gate, sources)
    assert 0 < let_in <= 2 * (15 + 12 * seconds + 1)
    with own_gate.connect(source="127.0.9.9") as elsewhere:
        assert statuses(exchange(elsewhere, pipelined(basic(), 1))) == [200]


@pytest.mark.parametrize("path", ["/health", "/healthz", "/readyz"])
def test_a_login_that_a_probe_carries_counts_nothing(own_gate: Gate, path: str) -> None:
    probes = pipelined(basic(password="x"), BURST).replace(b"GET /models", f"GET {path}".encode())
    with own_gate.connect() as connection:
        assert statuses(exchange(connection, probes)) == [200] * BURST
    assert own_gate.get("/models", basic()).status == 200


def test_wrong_logins_from_everywhere_are_limited_and_keys_are_not(own_gate: Gate) -> None:
    let_in, seconds = wrong_logins(own_gate, [f"127.0.{number}.1" for number in range(1, 9)])
    assert 0 < let_in <= 36 + 25 * seconds + 1
    with own_gate.connect(source="127.0.7.1") as attacker:
        assert statuses(exchange(attacker, pipelined(bearer(), 50))) == [200] * 50


def wrong_logins(gate: Gate, sources: list[str]) -> tuple[int, float]:
    """How many passwords were compared, and the seconds it took; each address sends what it may."""
    began, found = time.monotonic(), []
    for source in sources:
        with gate.connect(source=source) as connection:
            found += statuses(exchange(connection, pipelined(basic(password="x"), 31)))
    assert set(found) <= {401, 429}
    return found.count(401), time.monotonic() - began


def test_a_flood_of_probes_does_not_reach_the_server(own_gate: Gate, own_stub: Stub) -> None:
    began = time.monotonic()
    for path in ("/readyz", "/health"):
        one = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n"
        flood = (one + "\r\n") * (BURST - 1) + one + "Connection: close\r\n\r\n"
        with own_gate.connect() as connection:
            assert statuses(exchange(connection, flood.encode())) == [200] * BURST
    # Each of them once a second, and the seconds that have begun.
    assert 2 <= len(own_stub.seen) <= 2 * (time.monotonic() - began + 2)
