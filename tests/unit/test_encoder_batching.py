"""Infinity's engine with batching by tokens: same results, nobody held up, nothing hangs."""

# ruff: noqa: ANN401 - what Infinity answers has no type that says what is used here
from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_support import infer, load, minilm, passages, save_bert, save_roberta, worst_loss
from infinity_emb import AsyncEmbeddingEngine, engine
from infinity_emb.args import EngineArgs
from infinity_emb.primitives import Device

from appliance.serving import encoder_batching
from appliance.serving.encoder_tokens import tokens_of
from appliance.serving.encoder_worker import CHUNK, Forwarder


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(engine), "BatchHandler", vars(engine)["BatchHandler"])
    encoder_batching.install()


def engine_for(folder: Path) -> AsyncEmbeddingEngine:
    return AsyncEmbeddingEngine.from_args(
        EngineArgs(
            model_name_or_path=str(folder),
            device=Device.cpu,
            bettertransformer=False,
            model_warmup=False,
        )
    )


def with_engine(folder: Path, use: Any) -> Any:
    async def session() -> Any:
        started = engine_for(folder)
        async with started:
            assert isinstance(started._batch_handler, encoder_batching.TokenBatchHandler)
            return await asyncio.wait_for(use(started), 60)

    return asyncio.run(session())


def test_embeddings_of_many_requests_reach_their_senders() -> None:
    texts = passages(40, seed=11)
    stock = infer(load(minilm()), texts)

    async def use(model: AsyncEmbeddingEngine) -> list[Any]:
        parts = [texts[:1], texts[1:3], texts[3:25], texts[25:]]
        answers = await asyncio.gather(*[model.embed(part) for part in parts])
        return [vector for vectors, _ in answers for vector in vectors]

    assert worst_loss(np.array(with_engine(minilm(), use)), stock) < 1e-5


def test_reranker_and_classifier_answer_as_stock_does(tmp_path: Path) -> None:
    folder = save_bert(tmp_path / "r", "BertForSequenceClassification", num_labels=1)
    docs = passages(12, seed=12)
    stock = infer(load(folder), [("query", doc) for doc in docs])

    async def rerank(model: AsyncEmbeddingEngine) -> Any:
        return await model.rerank(query="query", docs=docs, raw_scores=True)

    ranked, _ = with_engine(folder, rerank)
    scores = {entry.index: entry.relevance_score for entry in ranked}
    np.testing.assert_allclose([scores[i] for i in range(12)], stock, rtol=1e-4, atol=1e-4)

    folder = save_roberta(tmp_path / "c", "RobertaForSequenceClassification", num_labels=3)
    expected = infer(load(folder), docs)

    async def classify(model: AsyncEmbeddingEngine) -> Any:
        return await model.classify(sentences=docs)

    labels, _ = with_engine(folder, classify)
    for mine, theirs in zip(labels, expected, strict=True):
        scores = {entry["label"]: entry["score"] for entry in theirs}
        assert {e["label"]: e["score"] for e in mine} == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("save", [save_bert, save_roberta])
def test_tokens_are_those_of_encode_pre(tmp_path: Path, save: Any) -> None:
    kind = "BertForSequenceClassification" if save is save_bert else "XLMRobertaModel"
    model = load(save(tmp_path, kind, **({"num_labels": 1} if save is save_bert else {})))
    inputs: list[Any] = ["  spaced \n", "", "<pad> [SEP]", *passages(8, seed=13, mean=5.0)]
    if save is save_bert:
        inputs = [(" a query ", text) for text in inputs]
    tokens = tokens_of(model)
    assert tokens is not None
    pieces, lengths = tokens.split(inputs)
    ours, stock = tokens.features(pieces), model.encode_pre(inputs)
    assert sorted(ours) == sorted(stock)
    for name in stock:
        np.testing.assert_array_equal(ours[name], stock[name], err_msg=name)
    assert lengths == stock["attention_mask"].sum(1).tolist()


def test_query_during_a_bulk_load_waits_for_one_chunk_at_most() -> None:
    """Counted in batches, not in seconds: what is in the encoder when the query comes, then it."""
    batches: list[list[str]] = []
    first_runs, go_on = threading.Event(), threading.Event()

    def run(pieces: Sequence[str]) -> Sequence[str]:
        batches.append(list(pieces))
        first_runs.set()
        assert go_on.wait(10)
        return [piece.upper() for piece in pieces]

    async def session() -> list[str]:
        forwarder = Forwarder(run)
        bulk = asyncio.create_task(forwarder.submit(["bulk"] * 100, [100] * 100))
        await asyncio.to_thread(first_runs.wait, 10)
        query = asyncio.create_task(forwarder.submit(["query"], [12]))
        await asyncio.sleep(0)
        go_on.set()
        answers = [*(await query), *(await bulk)]
        await asyncio.to_thread(forwarder.stop)
        return answers

    assert asyncio.run(session()) == ["QUERY", *["BULK"] * 100]
    assert batches[1] == ["query"]
    assert max(map(len, batches)) <= CHUNK // 100


def test_failing_request_fails_alone_and_the_next_is_served() -> None:
    """Stock Infinity hangs for ever after a worker's exception."""
    held = threading.Event()

    def run(pieces: Sequence[str]) -> Sequence[str]:
        held.wait(10)
        if "bad" in pieces:
            raise ValueError("bad")
        return pieces

    async def session() -> list[Any]:
        forwarder = Forwarder(run)
        sent = [forwarder.submit([word], [1]) for word in ("good", "bad", "also good")]
        waiting = asyncio.gather(*sent, return_exceptions=True)
        await asyncio.sleep(0.05)
        held.set()
        answers = [*(await waiting), await forwarder.submit(["later"], [1])]
        await asyncio.to_thread(forwarder.stop)
        return answers

    good, bad, also, later = asyncio.run(session())
    assert (good, also, later) == (["good"], ["also good"], ["later"])
    assert isinstance(bad, ValueError)


def test_cancelled_bulk_load_is_not_computed() -> None:
    ran: list[int] = []

    def run(pieces: Sequence[str]) -> Sequence[str]:
        ran.append(len(pieces))
        time.sleep(0.02)
        return pieces

    async def session() -> int:
        forwarder = Forwarder(run)
        bulk = asyncio.create_task(forwarder.submit(["x"] * 5000, [CHUNK] * 5000))
        await asyncio.sleep(0.1)
        bulk.cancel()
        await forwarder.submit(["query"], [1])
        left = len(forwarder)
        await asyncio.to_thread(forwarder.stop)
        return left

    assert asyncio.run(session()) == 0
    assert sum(ran) < 5000


def test_stop_cancels_what_waits_and_refuses_what_comes() -> None:
    def slowly(pieces: Sequence[str]) -> Sequence[str]:
        time.sleep(0.05)
        return pieces

    async def session() -> None:
        forwarder = Forwarder(slowly)
        waiting = asyncio.create_task(forwarder.submit(["x"] * 100, [CHUNK] * 100))
        await asyncio.sleep(0.02)
        await asyncio.to_thread(forwarder.stop)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(RuntimeError, match="shut down"):
            await forwarder.submit(["late"], [1])

    asyncio.run(session())
