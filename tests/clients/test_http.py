"""curl and httpx, and what a client sees when there is more work than the server takes."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import probe
import pytest
from endpoint import DIMENSIONS, EMBEDDER, Endpoint

pytestmark = pytest.mark.boot


@pytest.fixture(scope="module")
def client(endpoint: Endpoint) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=endpoint.url, headers=endpoint.bearer, timeout=120) as made:
        yield made


def curl(endpoint: Endpoint, *words: str, config: str) -> tuple[int, str, dict[str, Any]]:
    """Status, HTTP version and JSON of a call, secrets handed over as curl's configuration."""
    address = f"{endpoint.host}:443:{endpoint.machine.address}"
    options = ["--cacert", str(endpoint.certificate), "--resolve", address, "--config", "-"]
    shown = ["--silent", "--show-error", "--write-out", "\n%{http_code} %{http_version}"]
    done = subprocess.run(
        ["curl", *options, *shown, *words],
        input=config,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    body, _, end = done.stdout.rpartition("\n")
    status, version = end.split()
    return int(status), version, json.loads(body)


@pytest.mark.parametrize("path", ["/embeddings", "/v1/embeddings", "/v1/embeddings/"])
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_curl_embeds_with_the_key(endpoint: Endpoint, path: str, version: str) -> None:
    key = f'header = "Authorization: Bearer {endpoint.key}"\n'
    body = json.dumps({"input": ["one", "two"], "model": EMBEDDER})
    words = [version, "--json", body, endpoint.url + path]
    status, spoken, answer = curl(endpoint, *words, config=key)
    assert status == 200
    assert f"--http{spoken}" == version
    assert [len(item["embedding"]) for item in answer["data"]] == [DIMENSIONS] * 2


def test_curl_embeds_with_the_login(endpoint: Endpoint) -> None:
    config = f'user = "{":".join(endpoint.login)}"\n'
    status, _, answer = curl(
        endpoint,
        "--json",
        '{"input": "x", "model": "bge-m3"}',
        f"{endpoint.url}/embeddings",
        config=config,
    )
    assert (status, answer["model"]) == (200, EMBEDDER)


def test_httpx_keeps_its_connection_through_answers_and_refusals(client: httpx.Client) -> None:
    streams = set()
    for body in ({"input": "x", "model": EMBEDDER}, {"input": ""}, {"input": "y" * 2**20}, {}):
        answer = client.post("/v1/embeddings", json=body)
        streams.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
    assert len(streams) == 1


@contextmanager
def hogging(endpoint: Endpoint, client: httpx.Client) -> Iterator[None]:
    """While one client's request fills the queue by itself; in the end that client hangs up."""
    body = json.dumps({"input": ["word " * 300] * 2048, "model": EMBEDDER})
    head = (
        f"POST /embeddings HTTP/1.1\r\nHost: {endpoint.host}\r\n"
        f"Authorization: Bearer {endpoint.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    context = ssl.create_default_context(cafile=str(endpoint.certificate))
    with (
        socket.create_connection((endpoint.host, 443), 10) as plain,
        context.wrap_socket(plain, server_hostname=endpoint.host) as secure,
    ):
        secure.sendall((head + body).encode())
        probe.eventually(lambda: waiting(client) > 2**18, "a full queue")
        yield


def waiting(client: httpx.Client) -> int:
    """Tokens admitted and not yet done, as a router may look at them."""
    return int(client.get("/models").json()["data"][0]["stats"]["queue_tokens"])


def test_work_that_does_not_fit_is_429_at_once_and_fits_when_its_cause_hangs_up(
    endpoint: Endpoint, client: httpx.Client
) -> None:
    options: dict[str, Any] = {"base_url": endpoint.url, "api_key": endpoint.key}
    impatient = openai.OpenAI(**options, max_retries=0)
    more = ["some words " * 200] * 10  # 4,000 tokens
    with hogging(endpoint, client):
        with pytest.raises(openai.RateLimitError) as caught:
            impatient.embeddings.create(model=EMBEDDER, input=more)
        beside = impatient.embeddings.create(model=EMBEDDER, input="x")  # room is kept for it
        assert len(beside.data[0].embedding) == DIMENSIONS
        assert client.get("/readyz").status_code == 200
        assert client.get("/health").status_code == 200
    assert (caught.value.status_code, caught.value.code) == (429, "rate_limit_exceeded")
    assert 1 <= int(caught.value.response.headers["Retry-After"]) <= 60
    probe.eventually(lambda: waiting(client) == 0, "the end of what nobody waits for")
    answer = openai.OpenAI(**options).embeddings.create(model=EMBEDDER, input=more)
    assert len(answer.data) == len(more)
