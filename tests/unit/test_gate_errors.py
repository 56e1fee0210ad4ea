"""Errors of nginx's own, read by the OpenAI SDK; errors of the server's pass unchanged."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from gate_harness import HOST, KEY, Answer, Gate, bearer, running_gate
from gate_stub import Stub

CAP = 32 * 1024 * 1024


def error_of(answer: Answer) -> dict[str, Any]:
    body = answer.json()
    assert set(body) <= {"error", "detail"}
    error = body["error"]
    assert set(error) == {"message", "type", "code", "param"}
    assert error["param"] is None
    assert all(error[name] for name in ("message", "type", "code"))
    assert isinstance(error, dict)
    return error


def test_401_says_detail_as_well_and_keeps_the_browsers_question(gate: Gate) -> None:
    answer = gate.get("/models.html")
    assert error_of(answer)["code"] == "invalid_api_key"
    assert answer.json()["detail"]
    assert answer.header("WWW-Authenticate") == 'Basic realm="Infinity"'


def test_403_and_405_are_error_objects(gate: Gate) -> None:
    refused = gate.post("/embeddings", bearer(), ("Origin", "https://evil.example"))
    assert error_of(refused)["code"] == "forbidden"
    assert error_of(gate.get("/models", bearer(), method="TRACE"))["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/models", "GET, HEAD"), ("/embeddings", "POST"), ("/v1/rerank/", "POST")],
)
def test_405_says_which_methods_there_are(gate: Gate, path: str, allowed: str) -> None:
    assert gate.get(path, bearer(), method="DELETE").header("Allow") == allowed
    assert gate.get(path).values("Allow") == []  # a 401


def test_a_body_above_the_cap_is_413_by_its_announced_length(gate: Gate, stub: Stub) -> None:
    head = f"POST /embeddings HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {CAP + 1}\r\n\r\n"
    with gate.connect() as connection:
        connection.sendall(head.encode())
        # nginx waits for the body it refuses, so the end of the answer is not the connection's.
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 413
        assert json.loads(answer.read())["error"]["code"] == "request_too_large"
    assert stub.seen == []


def test_a_chunked_body_above_the_cap_is_413(gate: Gate, stub: Stub) -> None:
    head = (
        f"POST /embeddings HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {bearer()[1]}\r\n"
        f"Transfer-Encoding: chunked\r\n\r\n{CAP + 1:x}\r\n"
    )
    raw = gate.raw(head.encode() + b"a" * (CAP + 1) + b"\r\n0\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 413 ")
    assert stub.seen == []


def test_a_full_request_passes(gate: Gate, stub: Stub) -> None:
    body = json.dumps({"input": ["é" * 2000] * 2048}).encode()
    assert 20_000_000 < len(body) < CAP
    assert gate.post("/embeddings", bearer(), body=body).status == 200
    assert stub.seen[0].body == body


def test_open_paths_take_no_large_body(gate: Gate, stub: Stub) -> None:
    answer = gate.ask("GET", "/health", body=b"a" * 5000)
    assert answer is not None
    assert answer.status == 413
    assert stub.seen == []


def test_overlong_headers_and_urls_are_error_objects(gate: Gate) -> None:
    # Not much longer than the limit: nginx closes over what it left unread, and the reset that
    # follows may overtake the answer.
    headers = gate.get("/models", ("Authorization", "Bearer " + "a" * 9000))
    assert headers.status == 431
    assert error_of(headers)["code"] == "headers_too_large"
    url = gate.get("/" + "a" * 9000)
    assert url.status == 414
    assert error_of(url)["code"] == "uri_too_long"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /models HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        (b"GET /mod els HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", 505),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    ],
)
def test_broken_requests_to_our_name_are_error_objects(
    gate: Gate, request_bytes: bytes, status: int
) -> None:
    raw = gate.raw(request_bytes)
    assert raw.split(b" ")[1] == str(status).encode()
    assert json.loads(raw.split(b"\r\n\r\n", 1)[1])["error"]["param"] is None


def test_errors_of_the_server_pass_through_unchanged(gate: Gate) -> None:
    overloaded = gate.get("/overloaded", bearer())
    assert overloaded.status == 429
    assert overloaded.body == b'{"error":{"code":"mine"}}'
    assert overloaded.header("Retry-After") == "7"
    failing = gate.get("/failing", bearer())
    assert failing.status == 500
    assert failing.body == b'{"error":{"code":"mine"}}'
    assert failing.values("Retry-After") == []


def test_a_server_that_dies_over_a_request_is_503_to_be_tried_again(gate: Gate) -> None:
    answer = gate.post("/hangup", bearer())
    assert answer.status == 503
    assert int(answer.header("Retry-After")) > 0
    assert error_of(answer)["code"] == "service_unavailable"


def test_a_garbled_answer_is_502(gate: Gate) -> None:
    answer = gate.get("/garbage", bearer())
    assert answer.status == 502
    assert error_of(answer)["code"] == "bad_gateway"


@pytest.fixture
def lonely_gate(tmp_path: Path) -> Iterator[Gate]:
    """A gate with no server behind it: what a client sees while the model loads."""
    with Stub() as stub:
        port = stub.port
    with running_gate(tmp_path / "root", port) as gate:
        yield gate


def test_while_nobody_listens_the_api_is_503_and_nginx_alive(lonely_gate: Gate) -> None:
    for path, credentials in (("/models", [bearer()]), ("/health", [])):
        answer = lonely_gate.get(path, *credentials)
        assert answer.status == 503
        assert int(answer.header("Retry-After")) > 0
        assert error_of(answer)["code"] == "service_unavailable"
    assert lonely_gate.get("/healthz").status == 200
    assert lonely_gate.get("/models").status == 401
    for host in (HOST, "10.0.0.7"):
        ready = lonely_gate.ask("GET", "/readyz", host=host)
        assert ready is not None
        assert ready.status == 503
        assert ready.json() == {"status": "loading"}
        assert int(ready.header("Retry-After")) > 0


def test_while_nobody_listens_a_browser_gets_a_page_that_tries_again(lonely_gate: Gate) -> None:
    accept = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
    for path in ("/", "/docs"):
        answer = lonely_gate.get(path, bearer(), accept)
        assert answer.status == 503
        assert answer.header("Content-Type") == "text/html; charset=utf-8"
        assert int(answer.header("Retry-After")) > 0
        page = answer.body.decode()
        assert '<meta http-equiv="refresh"' in page
        [style] = re.findall("<style>(.+?)</style>", page)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = answer.header("Content-Security-Policy")
        assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; ")
    assert lonely_gate.get("/", accept).status == 401
    posted = lonely_gate.post("/embeddings", bearer(), accept)
    assert error_of(posted)["code"] == "service_unavailable"


def test_the_server_is_found_again_as_soon_as_it_listens(lonely_gate: Gate, tmp_path: Path) -> None:
    assert lonely_gate.get("/models", bearer()).status == 503
    site = (tmp_path / "root/etc/nginx/infinity-site.conf").read_text()
    port = int(site.split("server 127.0.0.1:")[1].split(";")[0])
    with Stub(port):
        assert lonely_gate.get("/models", bearer()).status == 200


def test_a_kept_connection_that_died_loses_no_request(own_gate: Gate, own_stub: Stub) -> None:
    assert own_gate.post("/embeddings", bearer()).status == 200
    own_stub.__exit__()
    with Stub(own_stub.port):
        assert own_gate.post("/embeddings", bearer()).status == 200


def test_a_server_that_takes_too_long_is_504(tmp_path: Path, own_stub: Stub) -> None:
    edits = {"infinity/timeouts.conf": ("proxy_read_timeout 10m", "proxy_read_timeout 200ms")}
    with running_gate(tmp_path / "root", own_stub.port, edits) as gate:
        answer = gate.get("/slow", bearer())
    assert answer.status == 504
    assert error_of(answer)["code"] == "gateway_timeout"


@contextmanager
def sdk(gate: Gate, key: str = KEY, **headers: str) -> Iterator[openai.OpenAI]:
    context = ssl.create_default_context(cafile=str(gate.certificate))
    with openai.DefaultHttpxClient(verify=context, trust_env=False) as transport:
        yield openai.OpenAI(
            base_url=f"https://{HOST}:{gate.https_port}/v1",
            api_key=key,
            http_client=transport,
            max_retries=0,
            default_headers=headers,
        )


def test_the_openai_sdk_reads_401(gate: Gate) -> None:
    with sdk(gate, KEY + "0") as client, pytest.raises(openai.AuthenticationError) as caught:
        client.models.list()
    assert caught.value.code == "invalid_api_key"
    assert caught.value.type == "invalid_request_error"
    assert caught.value.request_id
    assert "API key" in caught.value.message


def test_the_openai_sdk_reads_403(gate: Gate) -> None:
    with (
        sdk(gate, Origin="https://evil.example") as client,
        pytest.raises(openai.PermissionDeniedError) as caught,
    ):
        client.embeddings.create(model="m", input="x")
    assert caught.value.code == "forbidden"


def test_the_openai_sdk_reads_413(gate: Gate) -> None:
    with sdk(gate) as client, pytest.raises(openai.APIStatusError) as caught:
        client.embeddings.create(model="m", input="x" * (CAP + 1))
    assert caught.value.status_code == 413
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["code"] == "request_too_large"


def test_the_openai_sdk_reads_503(lonely_gate: Gate) -> None:
    with sdk(lonely_gate) as client, pytest.raises(openai.InternalServerError) as caught:
        client.models.list()
    assert caught.value.code == "service_unavailable"
    assert caught.value.response.headers["Retry-After"]
