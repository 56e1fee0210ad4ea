"""Which names are answered, on both ports, with and without SNI."""

from __future__ import annotations

import socket
import ssl

import pytest
from gate_harness import ALIAS, HOST, Gate, bearer, exchange
from gate_stub import Stub

STRANGE = ("evil.example", "127.0.0.1", "localhost.evil.example", "xlocalhost", "_", "[::1]")


@pytest.mark.parametrize("host", STRANGE)
@pytest.mark.parametrize("sni", [HOST, "evil.example", None])
@pytest.mark.parametrize("path", ["/health", "/models", "/", "/v1/embeddings"])
def test_an_unknown_host_is_closed_unanswered_on_https(
    gate: Gate, stub: Stub, host: str, sni: str | None, path: str
) -> None:
    with unverified(gate, sni) as connection:
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer()[1]}\r\n\r\n"
        assert exchange(connection, request.encode()) == b""
    assert stub.seen == []


@pytest.mark.parametrize("host", STRANGE)
@pytest.mark.parametrize("path", ["/health", "/models", "/"])
def test_an_unknown_host_is_closed_unanswered_on_http(gate: Gate, host: str, path: str) -> None:
    assert gate.ask("GET", path, host=host, tls=False) is None


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /health HTTP/1.0\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET https://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n",
        b"TRACE / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/7.1\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: evil.example\r\nX: " + b"a" * 70000 + b"\r\n\r\n",
        b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_a_request_without_a_host_of_ours_is_closed_unanswered(
    gate: Gate, stub: Stub, request_bytes: bytes, tls: bool
) -> None:
    assert gate.raw(request_bytes, tls=tls, sni=None) == b""
    assert stub.seen == []


def test_plain_http_on_the_tls_port_is_closed_for_an_unknown_host(gate: Gate) -> None:
    with socket.create_connection(("127.0.0.1", gate.https_port), timeout=20) as connection:
        assert exchange(connection, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n") == b""


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize("host", ["10.0.0.7", "10.0.0.7:443", HOST, ""])
def test_load_balancers_reach_the_probes_under_any_host(
    gate: Gate, tls: bool, method: str, path: str, host: str
) -> None:
    version = "1.1" if host else "1.0"
    answer = gate.ask(method, path, host=host, tls=tls, sni=None, version=version)
    assert answer is not None
    assert answer.status == 200
    assert bool(answer.body) == (method == "GET")


def test_a_probe_passes_nothing_of_the_request_to_the_server(
    own_gate: Gate, own_stub: Stub
) -> None:
    for path in ("/readyz?a=b", "/health?a=b"):
        answer = own_gate.ask("GET", path, ("X-Anything", "1"), bearer(), body=b"x" * 100)
        assert answer is not None
        assert answer.status == 200
    assert [seen.path for seen in own_stub.seen] == ["/readyz", "/health"]
    for seen in own_stub.seen:
        assert seen.headers == (("Host", "localhost"),)
        assert seen.body == b""


@pytest.mark.parametrize(
    "host", [HOST, HOST.upper(), f"{HOST}.", f"{HOST}:443", f"{HOST}:1", ALIAS]
)
def test_our_names_are_served_in_every_way_of_writing_them(gate: Gate, host: str) -> None:
    answer = gate.ask("GET", "/models", bearer(), host=host)
    assert answer is not None
    assert answer.status == 200


def test_a_client_without_sni_shakes_hands_and_is_sorted_by_its_host(gate: Gate) -> None:
    answer = gate.ask("GET", "/models", bearer(), sni=None)
    assert answer is not None
    assert answer.status == 200


def test_the_name_in_the_request_line_counts_and_the_server_sees_ours(
    gate: Gate, stub: Stub
) -> None:
    answer = gate.ask("GET", f"https://{HOST}/models", bearer(), host="evil.example")
    assert answer is not None
    assert answer.status == 200
    assert stub.seen[0].values("Host") == [f"{HOST}:{gate.https_port}"]


@pytest.mark.parametrize("name", [HOST, ALIAS])
@pytest.mark.parametrize("target", ["/models", "/a?b=c", "//evil.example/", "/%0d%0aX:%20y"])
def test_plain_http_redirects_to_the_configured_https_name(
    gate: Gate, name: str, target: str
) -> None:
    answer = gate.ask("GET", target, host=name, tls=False)
    assert answer is not None
    assert answer.status == 301
    assert answer.header("Location") == f"https://{name}:{gate.https_port}{target}"
    assert answer.values("X") == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_version_of_tls_before_1_2_is_refused_by_the_server(gate: Gate) -> None:
    context = old_client()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", gate.https_port), timeout=20) as plain,
        pytest.raises(ssl.SSLError, match="alert protocol version"),
    ):
        context.wrap_socket(plain, server_hostname=HOST)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_offer_http_2(gate: Gate, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=str(gate.certificate))
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    plain = socket.create_connection(("127.0.0.1", gate.https_port), timeout=20)
    with context.wrap_socket(plain, server_hostname=HOST) as connection:
        assert connection.selected_alpn_protocol() == "h2"


@pytest.mark.parametrize("ciphers", ["ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384"])
def test_a_client_with_only_weak_ciphers_is_refused_by_the_server(gate: Gate, ciphers: str) -> None:
    context = old_client()
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    with (
        socket.create_connection(("127.0.0.1", gate.https_port), timeout=20) as plain,
        pytest.raises(ssl.SSLError, match="alert handshake failure"),
    ):
        context.wrap_socket(plain, server_hostname=HOST)


def old_client() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def unverified(gate: Gate, sni: str | None) -> ssl.SSLSocket:
    """A connection that shows a name the certificate need not cover."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", gate.https_port), timeout=20)
    return context.wrap_socket(plain, server_hostname=sni)
