"""Requests that are refused whatever credential they carry, and paths that try to slip through."""

from __future__ import annotations

import pytest
from gate_harness import ALIAS, HOST, Gate, bearer
from gate_stub import Stub


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost",
        "https://localhost",
        "https://localhost:1",
        "https://localhost.evil.example",
        "https://evil.example https://localhost",
        "https://xlocalhost",
    ],
)
@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_a_cross_origin_post_is_403_even_with_the_key(
    gate: Gate, stub: Stub, origin: str, method: str
) -> None:
    answer = gate.ask(method, "/embeddings", bearer(), ("Origin", origin), body=b"{}")
    assert answer is not None
    assert answer.status == 403
    assert stub.seen == []


def test_a_suffix_or_prefix_of_our_origin_is_not_our_origin(gate: Gate) -> None:
    ours = f"https://{HOST}:{gate.https_port}"
    for origin in (f"{ours}0", f"{ours}.evil.example", f"{ours}/", f"x{ours}"):
        assert gate.post("/embeddings", bearer(), ("Origin", origin)).status == 403


@pytest.mark.parametrize("name", [HOST, ALIAS])
def test_the_page_of_our_own_may_post(gate: Gate, name: str) -> None:
    origin = ("Origin", f"https://{name}:{gate.https_port}")
    answer = gate.ask("POST", "/embeddings", bearer(), origin, body=b"{}", host=name)
    assert answer is not None
    assert answer.status == 200


def test_one_of_our_names_is_another_origin_for_the_other(gate: Gate) -> None:
    origin = ("Origin", f"https://{HOST}:{gate.https_port}")
    answer = gate.ask("POST", "/embeddings", bearer(), origin, body=b"{}", host=ALIAS)
    assert answer is not None
    assert answer.status == 403


@pytest.mark.parametrize("upgrade", ["websocket", "WebSocket", "h2c, websocket"])
def test_a_websocket_upgrade_is_403_even_with_the_key(gate: Gate, stub: Stub, upgrade: str) -> None:
    answer = gate.ask(
        "GET",
        "/embeddings",
        bearer(),
        ("Upgrade", upgrade),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Version", "13"),
    )
    assert answer is not None
    assert answer.status == 403
    assert stub.seen == []


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PUT", "DELETE", "PATCH", "PURGE", "X-Y"])
def test_a_method_the_api_does_not_have_is_405(gate: Gate, stub: Stub, method: str) -> None:
    target = f"{HOST}:443" if method == "CONNECT" else "/models"
    answer = gate.ask(method, target, bearer())
    assert answer is not None
    assert answer.status in {400, 405}
    assert "error" in answer.json()
    assert stub.seen == []


@pytest.mark.parametrize("path", ["/health", "/healthz", "/readyz"])
@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS", "DELETE"])
def test_the_open_paths_take_get_and_head_only(
    gate: Gate, stub: Stub, path: str, method: str
) -> None:
    answer = gate.ask(method, path, body=b"{}")
    assert answer is not None
    assert answer.status == 405
    assert answer.header("Allow") == "GET, HEAD"
    assert answer.json()["error"]["code"] == "method_not_allowed"
    assert stub.seen == []


@pytest.mark.parametrize(
    "target",
    [
        "/embeddings/../health",
        "/embeddings/%2e%2e/health",
        "/models%2f..%2fhealth",
        "/models/x%2F..%2F..%2Freadyz",
        "//health",
        "/./health",
        "/%68ealth",
        "/health?a=/../models",
        "/health#/../models",
        "https://localhost/health",
    ],
)
def test_whatever_reaches_the_server_through_an_open_path_is_that_path(
    gate: Gate, stub: Stub, target: str
) -> None:
    gate.ask("GET", target)
    assert {seen.path for seen in stub.seen} <= {"/health", "/readyz"}


@pytest.mark.parametrize(
    "target",
    [
        "/health/../models",
        "/healthz/../models",
        "/readyz/..//models",
        "/health%2f..%2fmodels",
        "/health/..%2fmodels",
        "/health%2e",
        "/health%20",
        "/health%0d%0a",
        "/health/x/../../models",
        "/health%3f",
        "/health%252f..%252fmodels",
        "/..;/health",
        "/health/..;/models",
        "https://localhost/models",
    ],
)
def test_an_open_prefix_opens_nothing_else(gate: Gate, stub: Stub, target: str) -> None:
    answer = gate.ask("GET", target)
    assert answer is None or answer.status in {400, 401}
    assert stub.seen == []


@pytest.mark.parametrize("target", ["/../models", "/%2e%2e/%2e%2e/etc/passwd", "/models%00"])
def test_a_path_that_leaves_the_root_is_400(gate: Gate, stub: Stub, target: str) -> None:
    assert gate.get(target, bearer()).status == 400
    assert stub.seen == []


def test_an_encoded_slash_reaches_the_server_as_it_was_sent(gate: Gate, stub: Stub) -> None:
    gate.get("/v1/models/BAAI%2Fbge-small-en-v1.5", bearer())
    assert [seen.path for seen in stub.seen] == ["/v1/models/BAAI%2Fbge-small-en-v1.5"]
