"""What two routers do with an Infinity behind them, call by call: Rolter and Hivenet Router.

Rolter drops the ``/v1`` of its own endpoints and appends ``/embeddings`` or ``/rerank`` to its
``api_base``; Hivenet Router asks for ``/health`` and for everything else below ``/v1``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import httpx
import numpy as np
import probe
import pytest
from endpoint import DIMENSIONS, EMBEDDER, MADE, RERANKER, Endpoint

pytestmark = pytest.mark.boot

QUERY = "What is the capital of France?"
DOCUMENTS = [
    "Paris is the capital of France.",
    "London is the capital of the United Kingdom.",
    "Berlin is the capital of Germany.",
]
# What Rolter is given as api_base, for a server without and with a prefix.
BASES = ["", "/v1"]
CAPACITIES = {"embeddings": 64, "rerank": 32}  # Hivenet Router's example


@pytest.fixture(scope="module")
def router(endpoint: Endpoint) -> Iterator[httpx.Client]:
    """A router's connections, its key in place."""
    with httpx.Client(base_url=endpoint.url, headers=endpoint.bearer, timeout=60) as made:
        yield made


def error_of(answer: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    return error


@pytest.mark.parametrize("base", BASES)
def test_health_probe_lists_every_model_and_needs_the_key(
    endpoint: Endpoint, router: httpx.Client, base: str
) -> None:
    answer = router.get(f"{base}/models")
    found = {item["id"]: (item["object"], item["capabilities"]) for item in answer.json()["data"]}
    assert found == {EMBEDDER: ("model", ["embed"]), RERANKER: ("model", ["rerank"])}
    assert httpx.get(f"{endpoint.url}{base}/models").status_code == 401


@pytest.mark.parametrize("path", ["/health", "/v1/health"])
def test_sign_of_life_answers_200_beside_and_below_the_prefix(
    router: httpx.Client, path: str
) -> None:
    assert list(router.get(path).json()) == ["unix"]


def test_sign_of_life_asks_for_no_key(endpoint: Endpoint) -> None:
    assert httpx.get(f"{endpoint.url}/health").status_code == 200


@pytest.mark.parametrize("name", [EMBEDDER, RERANKER, MADE])
def test_agent_finds_its_model_by_the_served_name(router: httpx.Client, name: str) -> None:
    assert router.get(f"/v1/models/{name}").json()["object"] == "model"


@pytest.mark.parametrize("base", BASES)
def test_embeddings_come_one_for_each_input_with_usage(router: httpx.Client, base: str) -> None:
    body = {"model": EMBEDDER, "input": ["Hello world", "How are you?"]}
    answer = router.post(f"{base}/embeddings", json=body).json()
    assert (answer["object"], answer["model"]) == ("list", EMBEDDER)
    assert [(item["object"], item["index"]) for item in answer["data"]] == [
        ("embedding", 0),
        ("embedding", 1),
    ]
    assert np.array([item["embedding"] for item in answer["data"]]).shape == (2, DIMENSIONS)
    assert answer["usage"] == {"prompt_tokens": 4 + 6, "total_tokens": 4 + 6}


@pytest.mark.parametrize("base", BASES)
def test_rerank_is_sorted_cut_and_counted(router: httpx.Client, base: str) -> None:
    body = {"model": RERANKER, "query": QUERY, "documents": DOCUMENTS, "top_n": 2}
    answer = router.post(f"{base}/rerank", json=body).json()
    assert (answer["object"], answer["model"]) == ("rerank", RERANKER)
    scores = [item["relevance_score"] for item in answer["results"]]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)
    assert {item["document"] for item in answer["results"]} == {None}
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 40


def test_rerank_takes_documents_as_strings_or_with_a_text_alike(router: httpx.Client) -> None:
    body = {"model": RERANKER, "query": QUERY, "return_documents": True}
    plain = router.post("/rerank", json={**body, "documents": DOCUMENTS}).json()
    wrapped = [{"text": text} for text in DOCUMENTS]
    answer = router.post("/rerank", json={**body, "documents": wrapped}).json()
    assert answer["results"] == plain["results"]
    for item in answer["results"]:  # bare strings, which the router wraps for its own callers
        assert item["document"] == DOCUMENTS[item["index"]]


def test_document_without_a_text_is_400_with_its_position(router: httpx.Client) -> None:
    documents = [{"text": "a"}, {"image": "b"}, "c"]
    body = {"model": RERANKER, "query": QUERY, "documents": documents}
    answer = router.post("/rerank", json=body)
    assert answer.status_code == 400
    assert "documents[1]" in error_of(answer)["message"]


def test_model_that_is_not_served_is_400_invalid_model(router: httpx.Client) -> None:
    for path, more in (("embeddings", {"input": "x"}), ("rerank", {"query": "x"})):
        body = {"model": "bge-base", "documents": ["x"], **more}
        answer = router.post(f"/v1/{path}", json=body)
        assert answer.status_code == 400
        assert error_of(answer)["message"].startswith("Invalid model: ")
        assert error_of(answer)["code"] == "model_not_found"


def test_task_the_model_cannot_do_is_400_model_not_deployed(router: httpx.Client) -> None:
    ranked = {"model": EMBEDDER, "query": QUERY, "documents": DOCUMENTS}
    embedded = {"model": RERANKER, "input": "x"}
    for path, body in (("rerank", ranked), ("embeddings", embedded)):
        answer = router.post(f"/v1/{path}", json=body)
        assert answer.status_code == 400
        assert error_of(answer)["message"].startswith("ModelNotDeployedError: ")


@pytest.mark.parametrize("key", [None, "inf-" + "0" * 48])
@pytest.mark.parametrize("path", ["/embeddings", "/v1/rerank"])
def test_missing_and_wrong_keys_are_401_in_both_shapes(
    endpoint: Endpoint, path: str, key: str | None
) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = httpx.post(endpoint.url + path, headers=headers, json={"input": "x"})
    assert answer.status_code == 401
    assert answer.json()["detail"] == "Unauthorized"  # Infinity's
    assert error_of(answer)["code"] == "invalid_api_key"  # OpenAI's


def test_token_ids_that_infinity_refuses_are_embedded(router: httpx.Client) -> None:
    answer = router.post("/embeddings", json={"model": EMBEDDER, "input": [[15339, 1917]]})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_chat_is_refused_with_an_error_object(router: httpx.Client, path: str) -> None:
    answer = router.post(path, json={"model": EMBEDDER, "messages": []})
    assert answer.status_code == 404
    assert error_of(answer)["type"] == "invalid_request_error"


def test_both_agents_at_full_capacity_get_every_answer(endpoint: Endpoint) -> None:
    texts = [f"Sentence number {number}." for number in range(CAPACITIES["embeddings"])]
    bodies: list[tuple[str, object]] = [
        ("embeddings", {"model": EMBEDDER, "input": text}) for text in texts
    ]
    ranked = {"model": RERANKER, "query": QUERY, "documents": DOCUMENTS}
    bodies += [("rerank", ranked)] * CAPACITIES["rerank"]

    async def ask() -> list[httpx.Response]:
        client = httpx.AsyncClient(base_url=endpoint.url, headers=endpoint.bearer, timeout=60)
        async with client:
            calls = (client.post(f"/v1/{path}", json=body) for path, body in bodies)
            return await asyncio.gather(*calls)

    answers = asyncio.run(ask())
    assert {answer.status_code for answer in answers} == {200}
    first, other = (np.array(a.json()["data"][0]["embedding"]) for a in answers[:2])
    assert (first @ other) < 0.9999  # each its own text's
    ranks = [
        [item["relevance_score"] for item in sorted(a.json()["results"], key=itemgetter("index"))]
        for a in answers[len(texts) :]
    ]
    assert np.ptp(np.array(ranks), axis=0).max() < 1e-5  # every caller's are the same


def test_agent_on_the_instance_itself_needs_no_key(endpoint: Endpoint) -> None:
    """Hivenet Router's agents have no setting for one."""
    server = "http://127.0.0.1:7997"
    body = json.dumps({"model": RERANKER, "query": QUERY, "documents": DOCUMENTS, "top_n": 2})
    calls = {"/health": [], "/v1/models": [], "/v1/rerank": ["--json", body]}
    for path, words in calls.items():
        argv = ["curl", "--silent", "--fail", *words, server + path]
        answer = json.loads(endpoint.machine.exec(argv, user="ubuntu").stdout)
        assert set(answer) & {"unix", "data", "results"}


def test_both_models_were_started_without_a_network(endpoint: Endpoint) -> None:
    """From a cache that was carried in: nothing was asked for, and nothing can be."""
    machine = endpoint.machine
    assert not [
        line for line in probe.said(machine, "infinity-model.service") if "download" in line
    ]
    said = "\n".join(probe.said(machine, "infinity.service"))
    assert "huggingface.co" not in said
    assert f"{EMBEDDER}: " in said
    assert f"{RERANKER}: " in said
    pid = probe.show(machine, "infinity.service", "MainPID")
    environment = machine.exec(["cat", f"/proc/{pid}/environ"]).stdout.split("\0")
    assert "HF_HUB_OFFLINE=1" in environment
    assert "INFINITY_URL_PREFIX=/v1" in environment  # no harm: both paths are served
