"""The access log: a JSON object a line, whatever was sent, and no secret in any log."""

from __future__ import annotations

import base64
import json

import pytest
from gate_harness import HOST, KEY, NAMED_KEY, PASSWORD, Gate, basic, bearer, parse


def test_a_line_says_who_what_and_how_long(gate: Gate) -> None:
    answer = gate.get("/v1/models?x=1", bearer(NAMED_KEY), ("User-Agent", 'a "quoted" agent'))
    line = gate.log_line(answer.header("X-Request-ID"))
    assert line["key"] == "Search-Team"
    assert line["credential"] == "key"
    assert line["client"] == "127.0.0.1"
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/models", 200)
    assert line["host"] == f"{HOST}:{gate.https_port}"
    assert line["agent"] == 'a "quoted" agent'
    assert line["seconds"] >= 0
    assert line["bytes"] > 0
    assert line["upstream_status"] == "200"


@pytest.mark.parametrize(
    ("headers", "credential", "key", "status"),
    [
        ([], "none", "", 401),
        ([bearer()], "key", "unnamed", 200),
        ([bearer(KEY + "0")], "key", "", 401),
        ([basic()], "login", "", 200),
        ([basic(password="x")], "login", "", 401),
        ([("Authorization", KEY)], "other", "", 401),
    ],
)
def test_a_line_tells_refused_from_accepted(
    gate: Gate, headers: list[tuple[str, str]], credential: str, key: str, status: int
) -> None:
    line = gate.log_line(gate.get("/models", *headers).header("X-Request-ID"))
    assert (line["credential"], line["key"], line["status"]) == (credential, key, status)


def test_no_secret_is_in_any_log_and_every_line_is_json(own_gate: Gate) -> None:
    secret_login = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
    own_gate.get("/models", bearer())
    own_gate.get("/models", bearer(KEY + "0"))
    own_gate.get("/models", basic())
    own_gate.get("/models", basic(user=KEY, password=""))
    own_gate.get("/models", basic(user=PASSWORD, password="x"))
    own_gate.get("/models", basic(password=PASSWORD + "0"))
    own_gate.get("/models", ("Authorization", f"Token {KEY}"))
    own_gate.get("/models", ("X-API-Key", KEY), ("Cookie", KEY), ("Referer", f"https://x/?{KEY}"))
    own_gate.get(f"/models?api_key={KEY}")
    own_gate.ask("GET", f"/models?api_key={KEY}", tls=False)
    own_gate.ask("GET", f"/models?api_key={KEY}", host="evil.example", tls=False)
    own_gate.get("/models", ("User-Agent", "\xff\xfe\x80"))
    own_gate.raw(b"GET /\xff\x80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    own_gate.raw(f"GET /x?{KEY} HTTP/1.1\r\nHost: \xff\r\n\r\n".encode("latin-1"))
    own_gate.raw(f"GET /x?{KEY} nonsense\r\n\r\n".encode())
    own_gate.raw(f"{KEY} / HTTP/1.1\r\n\r\n".encode())
    own_gate.raw(
        f"GET /models HTTP/1.1\r\nHost: {HOST}\r\n{KEY}\r\nConnection: close\r\n\r\n".encode()
    )
    own_gate.raw(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nA: {KEY}{'a' * 70000}\r\n\r\n".encode())
    burst = f"GET /x?{KEY} HTTP/1.1\r\nHost: {HOST}\r\n{': '.join(basic(KEY, ''))}\r\n\r\n" * 200
    own_gate.raw(burst.encode() + b"GET / HTTP/1.0\r\n\r\n")
    last = own_gate.get("/healthz").header("X-Request-ID")
    own_gate.log_line(last)

    logs = {file.name: file.read_bytes() for file in (own_gate.root / "var/log/nginx").iterdir()}
    assert set(logs) == {"access.log", "error.log"}
    for content in logs.values():
        for secret in (KEY, PASSWORD, secret_login):
            assert secret.encode() not in content
    lines = [json.loads(line.decode("ascii")) for line in logs["access.log"].splitlines()]
    assert len(lines) > 200
    assert all(isinstance(line["status"], int) for line in lines)


@pytest.mark.parametrize("key", [KEY, KEY.upper(), KEY + "0", KEY[:12]])
def test_a_key_in_the_path_or_the_agent_is_not_logged(gate: Gate, key: str) -> None:
    answer = gate.get(f"/v1/{key}/models", ("User-Agent", f"curl {key}"))
    line = gate.log_line(answer.header("X-Request-ID"))
    assert line["path"] == "/(a key)"
    assert line["agent"] == "(a key)"
    assert key not in json.dumps(line)
    in_the_query = gate.get(f"/models?key={key}", bearer())
    assert gate.log_line(in_the_query.header("X-Request-ID"))["path"] == "/models"


def test_a_broken_request_is_logged_as_json_too(gate: Gate) -> None:
    answer = parse(gate.raw(b"GET /\x22\x5c\xff HTTP/1.1\r\nHost: localhost\r\n a: b\r\n\r\n"))
    assert gate.log_line(answer.header("X-Request-ID"))["status"] == 400
