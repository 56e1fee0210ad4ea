"""Reranking, classification, discovery: the calls of clients and routers."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest
from encoder_support import infer, load
from serving_model import CLASSIFIER, COMMIT, EMBEDDER, MINILM, RERANKER, models, single, three

QUERY = "What is the capital of France?"
DOCUMENTS = ["Berlin is a city.", "Paris is the capital of France.", "Fish swim.", "A " * 400]


def post(path: str, body: object) -> httpx.Response:
    return three().client.post(path, json=body)


def stock(name: str, items: list[Any]) -> Any:  # noqa: ANN401 - scores or labels
    folder = models() / f"hub/models--made--{name}/snapshots/{COMMIT}"
    return infer(load(folder), items)


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v1/rerank/"])
def test_rerank_sorts_and_scores_as_stock_infinity(path: str) -> None:
    answer = post(path, {"model": RERANKER, "query": QUERY, "documents": DOCUMENTS}).json()
    raw = stock("reranker", [(QUERY, document) for document in DOCUMENTS])
    expected = 1 / (1 + np.exp(-np.array(raw, dtype=np.float64)))
    assert answer["object"] == "rerank"
    assert [item["index"] for item in answer["results"]] == list(np.argsort(-expected))
    for item in answer["results"]:
        assert item["relevance_score"] == pytest.approx(expected[item["index"]], abs=1e-5)
        assert item["document"] is None
    assert answer["usage"]["total_tokens"] > 20


def test_rerank_takes_cohere_and_jina_documents_cut_and_returned() -> None:
    documents = [{"text": text, "title": "ignored"} for text in DOCUMENTS[:2]] + DOCUMENTS[2:]
    body = {"model": RERANKER, "query": QUERY, "documents": documents, "top_n": 2}
    answer = post("/rerank", {**body, "return_documents": True}).json()
    assert len(answer["results"]) == 2
    for item in answer["results"]:
        assert item["document"] == DOCUMENTS[item["index"]]
    whole = post("/rerank", {**body, "top_n": 10**9}).json()
    assert len(whole["results"]) == 4


def test_rerank_gives_raw_scores_on_request_and_counts_what_it_cut() -> None:
    body = {"model": RERANKER, "query": QUERY, "documents": DOCUMENTS, "raw_scores": True}
    answer = post("/rerank", body)
    raw = stock("reranker", [(QUERY, document) for document in DOCUMENTS])
    for item in answer.json()["results"]:
        assert item["relevance_score"] == pytest.approx(float(raw[item["index"]]), abs=1e-4)
    assert answer.headers["X-Truncated-Inputs"] == "1"


@pytest.mark.parametrize(
    ("change", "param", "word"),
    [
        ({"query": ""}, "query", "empty"),
        ({"query": None}, "query", "string"),
        ({"documents": []}, "documents", "empty"),
        ({"documents": "x"}, "documents", "list"),
        ({"documents": ["a", ""]}, "documents", "documents[1]"),
        ({"documents": ["a", {"title": "x"}]}, "documents", "documents[1]"),
        ({"documents": ["a", {"text": 5}]}, "documents", "documents[1]"),
        ({"documents": ["a"] * 2049}, "documents", "2049"),
        ({"top_n": 0}, "top_n", "1"),
        ({"top_n": "2"}, "top_n", "number"),
        ({"return_documents": 1}, "return_documents", "true"),
        ({"truncate": False, "documents": DOCUMENTS}, "documents", "documents[3]"),
        ({"model": EMBEDDER}, "model", "ModelNotDeployedError"),
        ({"model": "x"}, "model", "Invalid model: "),
    ],
)
def test_rerank_refuses_by_name(change: dict[str, Any], param: str, word: str) -> None:
    body = {"model": RERANKER, "query": QUERY, "documents": ["a", "b"], **change}
    answer = post("/rerank", body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert word in error["message"]


def test_classify_answers_as_stock_infinity() -> None:
    texts = ["I am well.", "I am not having a great day."]
    answer = post("/classify", {"model": CLASSIFIER, "input": texts}).json()
    expected = stock("classifier", texts)
    assert answer["object"] == "classify"
    for ours, theirs in zip(answer["data"], expected, strict=True):
        assert [item["label"] for item in ours] == [item["label"] for item in theirs]
        for a, b in zip(ours, theirs, strict=True):
            assert a["score"] == pytest.approx(b["score"], abs=1e-5)
    assert answer["usage"]["total_tokens"] == 6 + 10


@pytest.mark.parametrize("path", ["/classify", "/v1/classify"])
def test_a_task_the_model_cannot_do_is_400(path: str) -> None:
    answer = post(path, {"model": EMBEDDER, "input": "x"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("ModelNotDeployedError: ")
    assert "does not support `classify`" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/models", "/v1/models", "/v1/models/"])
def test_models_are_listed_under_their_served_names(path: str) -> None:
    found = three().client.get(path).json()
    assert found["object"] == "list"
    assert {item["id"]: item["capabilities"] for item in found["data"]} == {
        EMBEDDER: ["embed"],
        RERANKER: ["rerank"],
        CLASSIFIER: ["classify"],
    }
    assert {(item["object"], item["backend"]) for item in found["data"]} == {("model", "torch")}


@pytest.mark.parametrize("name", [MINILM, MINILM.replace("/", "%2F")])
def test_one_model_is_found_by_its_id(name: str) -> None:
    assert single().client.get(f"/v1/models/{name}").json()["id"] == MINILM
    missing = single().client.get("/models/none")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/embeddings", 405),
        ("POST", "/models", 405),
        ("DELETE", "/v1/models/x", 405),
        ("GET", "/nothing", 404),
        ("POST", "/v1/chat/completions", 404),
        ("GET", "/v1", 404),
        ("POST", "/embeddings_image", 404),
    ],
)
def test_what_is_not_there_is_refused_in_the_same_shape(
    method: str, path: str, status: int
) -> None:
    answer = single().client.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert ("Allow" in answer.headers) == (status == 405)


def test_health_is_infinitys() -> None:
    assert list(single().client.get("/health").json()) == ["unix"]
    assert single().client.head("/models").status_code == 200
