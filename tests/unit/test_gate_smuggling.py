"""Requests that nginx and the server behind it could read as different ones."""

from __future__ import annotations

import pytest
from gate_harness import HOST, Gate, bearer
from gate_stub import Stub

from audit.attacks import http2

SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = f"GET /smuggled HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        f"Content-Length: {len(SMUGGLED)}\r\nTransfer-Encoding: chunked",
        f"Transfer-Encoding: chunked\r\nContent-Length: {len(SMUGGLED)}",
        f"Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}",
        f"Content-Length: {len(SMUGGLED)}\r\nContent-Length: {len(SMUGGLED)}",
        f"Content-Length: 0, {len(SMUGGLED)}",
        f"Content-Length: +{len(SMUGGLED)}",
        "Content-Length: 0x0",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \x0bchunked",
        'Transfer-Encoding: "chunked"',
        "Transfer-Encoding:\tchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        " Transfer-Encoding: chunked",
        "X: y\r\n Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "X: y\r\n Content-Length: 0",
        "X: y\x00Content-Length: 0",
        "Host: evil.example",
        "Content-Length: 0\rX: y",
    ],
)
def test_a_request_that_two_servers_would_cut_differently_is_refused(
    gate: Gate, stub: Stub, lines: str
) -> None:
    raw = gate.raw(
        f"POST /embeddings HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {bearer()[1]}\r\n"
        f"{lines}\r\n\r\n{SMUGGLED}".encode()
    )
    assert raw == b"" or raw.split(b" ")[1] in {b"400", b"501"}
    assert stub.seen == []


@pytest.mark.parametrize(
    ("lines", "body", "arrives"),
    [
        ("Transfer_Encoding: chunked", "", b""),
        (f"Content_Length: {len(LAST)}", "", b""),
        ("Content-Length: 2\r\nExpect: 100-continue", "{}", b"{}"),
        ("X: y\nContent-Length: 2", "{}", b"{}"),
        ("Transfer-Encoding: chunked", '2;a=b;c="d"\r\n{}\r\n0;e\r\n\r\n', b"{}"),
        ("Transfer-Encoding: chunked", f"2;{'a' * 9000}\r\n{{}}\r\n0\r\n\r\n", b"{}"),
        ("Transfer-Encoding: chunked", "0000002\r\n{}\r\n000\r\n\r\n", b"{}"),
        ("Transfer-Encoding: chunked", "2\n{}\n0\n\n", b"{}"),
        (
            "Transfer-Encoding: chunked",
            f"2\r\n{{}}\r\n0\r\nAuthorization: {bearer()[1]}\r\nHost: evil.example\r\n\r\n",
            b"{}",
        ),
    ],
)
def test_what_follows_a_body_is_a_request_of_its_own_without_a_key(
    gate: Gate, stub: Stub, lines: str, body: str, arrives: bytes
) -> None:
    raw = gate.raw(
        f"POST /embeddings HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {bearer()[1]}\r\n"
        f"{lines}\r\n\r\n{body}{LAST}".encode()
    )
    statuses = [part[:3] for part in raw.replace(b"HTTP/1.1 100", b"").split(b"HTTP/1.1 ")[1:]]
    assert statuses in ([b"200", b"401"], [b"400"]), "a newer nginx refuses more"
    assert [(seen.path, seen.body) for seen in stub.seen] == [("/embeddings", arrives)][
        : statuses.count(b"200")
    ]
    framing = [seen.values(name) for seen in stub.seen for name in ("Transfer-Encoding", "Trailer")]
    assert framing == [[]] * len(framing)


@pytest.mark.parametrize(
    "fields",
    [
        http2.literal(b"x", b"a\r\nX-Injected: 1"),
        http2.literal(b"x", b"a\nX-Injected: 1"),
        http2.literal(b"x", b"a\r\n\r\nGET /smuggled HTTP/1.1"),
        http2.literal(b"x", b"a\0b"),
        http2.literal(b"x\r\nx-injected", b"1"),
        http2.literal(b"x: 1\r\nx-injected", b"1"),
        http2.literal(b"X-Upper", b"1"),
        http2.literal(b"content-length", b"1"),
        http2.literal(b"content-length", b"9"),
        http2.literal(b"content-length", b"2") * 2,
        http2.literal(b"host", b"evil.example"),
        http2.literal(http2.PATH, b"/health"),
        http2.literal(b"x", b"1") + http2.literal(http2.PATH, b"/health"),
        http2.literal(b":unknown", b"1"),
    ],
)
def test_a_request_over_http_2_that_would_be_another_over_http_1_is_refused(
    gate: Gate, stub: Stub, fields: bytes
) -> None:
    ask_over_http_2(gate, http2.block(HOST, "/embeddings", http2.POST) + fields)
    assert stub.seen == []


@pytest.mark.parametrize(
    "request_line",
    [
        http2.block(HOST, "/x HTTP/1.1\r\nX-Injected: 1", http2.POST),
        http2.block(HOST, "/x\r\n\r\nGET /smuggled HTTP/1.1", http2.POST),
        http2.block(f"{HOST}/x", "/embeddings", http2.POST),
        http2.block(f"{HOST}\r\nX-Injected: 1", "/embeddings", http2.POST),
        http2.block(HOST, "*", http2.POST),
        http2.block(HOST, "https://localhost/embeddings", http2.POST),
        http2.literal(2, b"POST /x HTTP/1.1") + http2.block(HOST, "/embeddings", b""),
    ],
)
def test_a_request_line_over_http_2_cannot_hold_another(
    gate: Gate, stub: Stub, request_line: bytes
) -> None:
    ask_over_http_2(gate, request_line)
    assert stub.seen == []


@pytest.mark.parametrize("name", [b"transfer-encoding", b"connection", b"x_injected", b"te"])
def test_what_belongs_to_one_connection_does_not_pass_from_http_2(
    gate: Gate, stub: Stub, name: bytes
) -> None:
    plain = http2.block(HOST, "/embeddings", http2.POST)
    ask_over_http_2(gate, plain + http2.literal(name, b"chunked"))
    assert [seen.body for seen in stub.seen] in ([], [b"{}"])
    assert all(seen.values(name.decode()) == [] for seen in stub.seen)


def test_an_ordinary_request_over_http_2_arrives(gate: Gate, stub: Stub) -> None:
    """Else the refusals above would show nothing."""
    ask_over_http_2(gate, http2.block(HOST, "/embeddings", http2.POST))
    assert [(seen.path, seen.body) for seen in stub.seen] == [("/embeddings", b"{}")]


def ask_over_http_2(gate: Gate, block: bytes) -> None:
    """One request with the good key and the body {}; returns when it is answered or refused."""
    key = http2.literal(b"authorization", bearer()[1].encode())
    with gate.connect(protocol="h2") as connection:
        http2.greet(connection)
        connection.sendall(
            http2.frame(http2.HEADERS, http2.END_HEADERS, 1, block + key)
            + http2.frame(http2.DATA, http2.END_STREAM, 1, b"{}")
        )
        received = connection.makefile("rb")
        while len(head := received.read(9)) == 9:
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            received.read(int.from_bytes(head[:3], "big"))
            if kind == http2.GOAWAY or (stream == 1 and is_last(kind, flags)):
                return


def is_last(kind: int, flags: int) -> bool:
    ends = kind in {http2.DATA, http2.HEADERS} and flags & http2.END_STREAM
    return bool(ends) or kind == http2.RST_STREAM
