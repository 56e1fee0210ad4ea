"""What of a request reaches the server, and what of an answer reaches the client."""

from __future__ import annotations

import pytest
from gate_harness import HOST, NAMED_KEY, Gate, basic, bearer
from gate_stub import Stub

from firstboot.__main__ import has_ipv6

CLAIMS = (
    ("X-Forwarded-For", "6.6.6.6"),
    ("X-Forwarded-For", "7.7.7.7"),
    ("X-Real-IP", "6.6.6.6"),
    ("Forwarded", "for=6.6.6.6"),
    ("X-Forwarded-Proto", "http"),
    ("X-Forwarded-Host", "evil.example"),
    ("X-Forwarded-Port", "6"),
    ("X-Forwarded-Prefix", "/evil"),
    ("X-Forwarded-Server", "evil.example"),
    ("X-Request-ID", "evil"),
    ("X-Infinity-Key-Name", "evil"),
    ("X_Forwarded_For", "6.6.6.6"),
    ("X_Infinity_Key_Name", "evil"),
    ("X.Real.IP", "6.6.6.6"),
)


def test_what_a_client_claims_about_its_way_here_is_replaced(gate: Gate, stub: Stub) -> None:
    answer = gate.get("/models", bearer(), *CLAIMS)
    seen = stub.seen[0]
    assert seen.values("X-Forwarded-For") == ["127.0.0.1"]
    assert seen.values("X-Real-IP") == ["127.0.0.1"]
    assert seen.values("Forwarded") == ["for=127.0.0.1;proto=https"]
    assert seen.values("X-Forwarded-Proto") == ["https"]
    assert seen.values("X-Infinity-Key-Name") == ["unnamed"]
    assert seen.values("X-Request-ID") == [answer.header("X-Request-ID")]
    assert seen.values("Host") == [f"{HOST}:{gate.https_port}"]
    everything = " ".join(name + value for name, value in seen.headers)
    assert "6.6.6.6" not in everything
    assert "evil" not in everything
    assert "_" not in everything.replace(answer.header("X-Request-ID"), "")


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_peer_with_ipv6_is_named_as_rfc_7239_writes_it(gate: Gate, stub: Stub) -> None:
    gate.ask("GET", "/models", bearer(), address="::1")
    assert stub.seen[0].values("Forwarded") == ['for="[::1]";proto=https']
    assert stub.seen[0].values("X-Forwarded-For") == ["::1"]


@pytest.mark.parametrize(
    ("credential", "name"),
    [(bearer(), "unnamed"), (bearer(NAMED_KEY), "Search-Team"), (basic(), "login")],
)
def test_the_server_learns_who_called_but_no_secret(
    gate: Gate, stub: Stub, credential: tuple[str, str], name: str
) -> None:
    extra = (("Proxy-Authorization", credential[1]), ("Cookie", f"key={credential[1]}"))
    assert gate.get("/models", credential, *extra).status == 200
    seen = stub.seen[0]
    assert seen.values("X-Infinity-Key-Name") == [name]
    secret = credential[1].split(" ")[1]
    assert all(secret not in value for _, value in seen.headers)
    assert seen.values("Authorization") == []


def test_hop_by_hop_headers_end_at_the_gate(gate: Gate, stub: Stub) -> None:
    hops = ("Keep-Alive", "TE", "Trailer", "Proxy-Connection", "Upgrade", "Proxy", "Expect")
    sent = [(name, "100-continue" if name == "Expect" else "x") for name in hops]
    assert gate.get("/models", bearer(), *sent).status == 200
    for name in (*hops, "Connection", "Transfer-Encoding"):
        assert stub.seen[0].values(name) == []


def test_a_chunked_body_arrives_whole_and_with_its_length(gate: Gate, stub: Stub) -> None:
    raw = gate.raw(
        f"POST /embeddings HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {bearer()[1]}\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        "2\r\n{}\r\n3\r\nabc\r\n0\r\n\r\n".encode()
    )
    assert raw.startswith(b"HTTP/1.1 200 ")
    assert stub.seen[0].body == b"{}abc"
    assert stub.seen[0].values("Transfer-Encoding") == []


def test_cors_headers_of_the_server_do_not_pass_and_it_sees_no_origin(
    gate: Gate, stub: Stub
) -> None:
    origin = ("Origin", f"https://{HOST}:{gate.https_port}")
    answer = gate.get("/cors", bearer(), origin, ("Access-Control-Request-Method", "POST"))
    assert answer.status == 200
    assert [name for name, _ in answer.headers if name.lower().startswith("access-control")] == []
    assert stub.seen[0].values("Origin") == []
    assert stub.seen[0].values("Access-Control-Request-Method") == []


@pytest.mark.parametrize("path", ["/models", "/health", "/healthz", "/readyz", "/denied"])
def test_every_answer_carries_the_security_headers_once(gate: Gate, path: str) -> None:
    answer = gate.get(path, *([] if path == "/denied" else [bearer()]))
    assert answer.status == (401 if path == "/denied" else 200)
    assert answer.header("Strict-Transport-Security").startswith("max-age=")
    assert answer.header("X-Content-Type-Options") == "nosniff"
    assert answer.header("X-Frame-Options") == "DENY"
    assert answer.header("Referrer-Policy") == "no-referrer"
    assert answer.header("Cache-Control") == "no-store"
    assert answer.header("Content-Security-Policy").startswith("default-src 'none'")
    assert len(answer.header("X-Request-ID")) == 32
    assert answer.header("Server") == "nginx"


def test_a_page_may_load_what_its_own_policy_allows_and_else_nothing(gate: Gate) -> None:
    policy = gate.get("/docs", bearer()).header("Content-Security-Policy")
    assert policy == "default-src 'none'; frame-ancestors 'none'"
    own = gate.get("/own-policy", bearer())
    assert own.header("Content-Security-Policy") == "default-src 'self'"
    assert own.header("Cache-Control") == "max-age=9"


def test_the_server_cannot_steer_nginx(gate: Gate) -> None:
    answer = gate.get("/steering", bearer())
    assert answer.json() == {"ok": True}
    assert answer.header("Server") == "nginx"
    assert [name for name, _ in answer.headers if name.lower().startswith("x-accel")] == []


def test_a_redirect_of_the_server_keeps_our_name(gate: Gate) -> None:
    location = gate.get("/moved", bearer()).header("Location")
    assert location == f"https://{HOST}:{gate.https_port}/elsewhere?a=b"
