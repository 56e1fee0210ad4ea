"""A model that raises, hangs or lies: requests end, the process ends, nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from serving_model import REPO, Server

FAULTY = str(REPO / "tests/unit/serving_faults.py")


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    fault = tmp_path_factory.mktemp("fault") / "fault"
    with Server(FAULTY, FAULT=str(fault)) as running:
        yield running, fault


@pytest.fixture
def shared(lasting: tuple[Server, Path]) -> Iterator[tuple[Server, Path]]:
    """A server for the faults that it outlives."""
    yield lasting
    lasting[1].write_text("")


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    """A server of its own, for a fault that ends it."""
    with Server(FAULTY, FAULT=str(tmp_path / "fault")) as running:
        yield running, tmp_path / "fault"


def embed(server: Server, text: str = "x") -> httpx.Response:
    return server.client.post("/embeddings", json={"input": text}, timeout=40)


def check_503(answer: httpx.Response) -> None:
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["error"]["code"] == "model_unavailable"


@pytest.mark.parametrize("kind", ["raise", "hang", "die"])
def test_a_failing_model_ends_requests_and_process(doomed: tuple[Server, Path], kind: str) -> None:
    server, fault = doomed
    assert embed(server).status_code == 200
    fault.write_text(kind)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(embed, server, f"text {i}") for i in range(4)]
        answers = [one.result() for one in waiting]
    for answer in answers:
        check_503(answer)
    check_503(server.client.get("/readyz"))
    check_503(embed(server))
    assert server.client.get("/health").status_code == 200
    assert server.process.wait(30) == 1


def test_a_request_that_fails_alone_leaves_the_server_up(shared: tuple[Server, Path]) -> None:
    server, _ = shared
    with ThreadPoolExecutor(8) as pool:
        good = [pool.submit(embed, server, f"text {i}") for i in range(7)]
        check_503(pool.submit(embed, server, "poison").result())
        assert {one.result().status_code for one in good} == {200}
    deadline = time.monotonic() + 10
    while server.client.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert embed(server).status_code == 200
    assert 'infinity_forward_failures_total{model="' in server.client.get("/metrics").text


def test_a_vector_that_is_not_finite_never_leaves(doomed: tuple[Server, Path]) -> None:
    server, fault = doomed
    fault.write_text("nan")
    answer = embed(server)
    assert answer.status_code == 500
    assert "finite" in answer.json()["error"]["message"]
    assert "not finite" in server.log


def test_liveness_answers_while_the_model_is_slow(shared: tuple[Server, Path]) -> None:
    server, fault = shared
    fault.write_text("slow")
    with ThreadPoolExecutor(8) as pool:
        work = [pool.submit(embed, server, "some words " * 100) for _ in range(8)]
        while not all(one.done() for one in work):
            assert server.client.get("/health", timeout=2).status_code == 200
            time.sleep(0.05)
        assert {one.result().status_code for one in work} == {200}


def test_a_client_that_hangs_up_frees_its_place(shared: tuple[Server, Path]) -> None:
    server, fault = shared
    fault.write_text("slow")
    body = {"input": ["some words " * 50] * 200}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.client.base_url}/embeddings", json=body, timeout=1)
    deadline = time.monotonic() + 5
    while "infinity_queue_tokens 0.0" not in server.client.get("/metrics").text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    fault.write_text("")
    assert embed(server).status_code == 200


def test_what_does_not_fit_is_429_at_once(shared: tuple[Server, Path]) -> None:
    server, fault = shared
    fault.write_text("slow")
    body = {"input": ["some words " * 200] * 1200}  # 480,000 tokens: more than the room
    url = f"{server.client.base_url}/embeddings"
    first = threading.Thread(target=_abandoned, args=(url, body))
    first.start()
    while "infinity_queue_requests 1.0" not in server.client.get("/metrics").text:
        time.sleep(0.05)
    started = time.monotonic()
    answer = server.client.post("/embeddings", json={"input": ["some words " * 200] * 100})
    assert answer.status_code == 429
    assert time.monotonic() - started < 5
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    assert embed(server).status_code == 200  # a short one still fits, and goes first
    first.join()


def _abandoned(url: str, body: object) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(url, json=body, timeout=8)


def test_a_large_body_is_413_and_the_connection_lives_on(shared: tuple[Server, Path]) -> None:
    server, _ = shared
    answer = server.client.post(
        "/embeddings",
        content=b'{"input": "' + b" " * 2**25 + b'x"}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 413
    assert embed(server).status_code == 200
