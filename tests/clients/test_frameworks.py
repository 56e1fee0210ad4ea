"""LangChain, LlamaIndex and LiteLLM with the settings that they come with."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

import httpx
import numpy as np
import pytest
from endpoint import DIMENSIONS, EMBEDDER, RERANKER, Endpoint
from langchain_openai import OpenAIEmbeddings
from pydantic import SecretStr

pytestmark = pytest.mark.boot

TEXTS = [
    "What is the capital of France?",
    "Paris is the capital of France.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich; 我能吞下玻璃。 👩‍🚀",
]
QUERY, DOCUMENTS = TEXTS[0], ["Berlin.", "Paris is the capital of France.", "Fish swim."]


@pytest.fixture(scope="module")
def plain(endpoint: Endpoint) -> np.ndarray[Any, Any]:
    """The vectors of TEXTS, asked for without any library's help."""
    answer = httpx.post(
        f"{endpoint.url}/embeddings",
        headers=endpoint.bearer,
        json={"model": EMBEDDER, "input": TEXTS},
    )
    return np.array([item["embedding"] for item in answer.json()["data"]])


def same(ours: object, theirs: np.ndarray[Any, Any]) -> bool:
    vectors = np.array(ours)
    return vectors.shape == theirs.shape and (vectors * theirs).sum(1).min() >= 0.99999


@pytest.fixture(scope="module")
def litellm(endpoint: Endpoint) -> Any:  # noqa: ANN401 - its functions have no strict types
    """Imported when the name and the certificate can be had: it reads its settings then."""
    assert endpoint.url
    return importlib.import_module("litellm")


def test_langchain_sends_token_ids_and_gets_the_vectors_of_its_texts(
    endpoint: Endpoint, plain: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    real = httpx.Client.send

    def spy(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:  # noqa: ANN401 - httpx's
        sent.append(json.loads(request.read()))
        return real(self, request, **options)

    with httpx.Client() as own:
        client = OpenAIEmbeddings(
            base_url=endpoint.url, api_key=SecretStr(endpoint.key), http_client=own
        )
        monkeypatch.setattr(httpx.Client, "send", spy)
        assert same(client.embed_documents(TEXTS), plain)
    assert sent[0]["model"] == "text-embedding-ada-002"
    assert all(isinstance(number, int) for ids in sent[0]["input"] for number in ids)


def test_langchain_embeds_with_a_url_and_a_key_alone(
    endpoint: Endpoint, plain: np.ndarray[Any, Any]
) -> None:
    client = OpenAIEmbeddings(base_url=f"{endpoint.url}/v1", api_key=SecretStr(endpoint.key))
    assert same([client.embed_query(text) for text in TEXTS], plain)
    assert same(asyncio.run(client.aembed_documents(TEXTS)), plain)


def test_langchain_embeds_more_texts_than_it_sends_at_a_time_in_order(endpoint: Endpoint) -> None:
    client = OpenAIEmbeddings(base_url=endpoint.url, api_key=SecretStr(endpoint.key), chunk_size=16)
    texts = [f"Sentence number {number}." for number in range(50)]
    vectors = np.array(client.embed_documents(texts))
    assert same(vectors[-1:], np.array([client.embed_query(texts[-1])]))


def test_langchain_embeds_what_is_longer_than_openais_window(endpoint: Endpoint) -> None:
    client = OpenAIEmbeddings(base_url=endpoint.url, api_key=SecretStr(endpoint.key))
    [vector] = client.embed_documents(["word " * 9000])
    assert len(vector) == DIMENSIONS
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-3)


def test_llama_index_embeds_with_a_url_and_a_key_alone(
    endpoint: Endpoint, plain: np.ndarray[Any, Any]
) -> None:
    llama_index: Any = importlib.import_module("llama_index.embeddings.openai")  # has no types
    client = llama_index.OpenAIEmbedding(api_base=endpoint.url, api_key=endpoint.key)
    assert same(client.get_text_embedding_batch(TEXTS), plain)
    assert same([client.get_query_embedding(text) for text in TEXTS], plain)
    assert same(asyncio.run(client.aget_text_embedding_batch(TEXTS)), plain)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("openai/text-embedding-3-small", "/v1"),
        (f"openai/{EMBEDDER}", ""),
        (f"infinity/{EMBEDDER}", ""),
    ],
)
def test_litellm_embeds_as_openai_and_as_infinity(
    litellm: Any,  # noqa: ANN401 - as its fixture
    endpoint: Endpoint,
    plain: np.ndarray[Any, Any],
    name: str,
    prefix: str,
) -> None:
    options = {"api_base": endpoint.url + prefix, "api_key": endpoint.key, "input": TEXTS}
    answer = litellm.embedding(model=name, **options)
    assert same([item["embedding"] for item in answer.data], plain)
    assert answer.usage.total_tokens > 20
    later = asyncio.run(litellm.aembedding(model=name, **options))
    assert same([item["embedding"] for item in later.data], plain)


def test_litellm_ranks_documents(litellm: Any, endpoint: Endpoint) -> None:  # noqa: ANN401
    answer = litellm.rerank(
        model=f"infinity/{RERANKER}",
        query=QUERY,
        documents=DOCUMENTS,
        top_n=2,
        return_documents=True,
        api_base=endpoint.url,
        api_key=endpoint.key,
    )
    scores = [item["relevance_score"] for item in answer.results]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)
    for item in answer.results:
        assert item["document"]["text"] == DOCUMENTS[item["index"]]


def test_litellm_knows_the_refusals(litellm: Any, endpoint: Endpoint) -> None:  # noqa: ANN401
    options = {"api_base": endpoint.url, "input": TEXTS}
    with pytest.raises(litellm.AuthenticationError):
        litellm.embedding(model=f"openai/{EMBEDDER}", api_key="inf-wrong", **options)
    with pytest.raises(litellm.BadRequestError, match="Invalid model"):
        litellm.embedding(model="openai/gpt-4o", api_key=endpoint.key, **options)
