"""The thread that runs a model: results reach their senders, nobody is held up, nothing hangs."""

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

from appliance.serving.encoder import accelerate
from appliance.serving.encoder_embedder import embedder_of
from appliance.serving.encoder_tokens import tokens_of
from appliance.serving.encoder_tuning import Choice
from appliance.serving.encoder_worker import CHUNK, Forwarder


def serve(folder: Path, requests: Sequence[list[Any]]) -> list[Any]:
    """The results of requests sent at once to an accelerated model, each in its order."""
    model = load(folder)
    accelerate(model, choice=Choice("packed", CHUNK))
    tokens = tokens_of(model)
    assert tokens is not None

    def steps(pieces: Sequence[Any]) -> Sequence[Any]:
        results: Sequence[Any] = model.encode_post(model.encode_core(tokens.features(pieces)))
        return results

    run: Any = embedder_of(model, tokens) or steps

    async def session() -> list[Any]:
        forwarder = Forwarder(run)
        sent = [forwarder.submit(*tokens.split(request)) for request in requests]
        answers = await asyncio.wait_for(asyncio.gather(*sent), 60)
        await asyncio.to_thread(forwarder.stop)
        return [result for answer in answers for result in answer]

    return asyncio.run(session())


def in_parts(items: list[Any]) -> list[list[Any]]:
    return [items[:1], items[1:3], items[3:10], items[10:]]


def test_embeddings_of_many_requests_reach_their_senders() -> None:
    texts = passages(40, seed=11)
    stock = infer(load(minilm()), texts)
    assert worst_loss(np.array(serve(minilm(), in_parts(texts))), stock) < 1e-5


def test_scores_of_many_requests_reach_their_senders(tmp_path: Path) -> None:
    folder = save_bert(tmp_path, "BertForSequenceClassification", num_labels=1)
    pairs = [("query", doc) for doc in passages(16, seed=12)]
    stock = infer(load(folder), pairs)
    np.testing.assert_allclose(serve(folder, in_parts(pairs)), stock, rtol=1e-4, atol=1e-4)


def test_labels_of_many_requests_reach_their_senders(tmp_path: Path) -> None:
    folder = save_roberta(tmp_path, "RobertaForSequenceClassification", num_labels=3)
    texts = passages(16, seed=12)
    expected = infer(load(folder), texts)
    for mine, theirs in zip(serve(folder, in_parts(texts)), expected, strict=True):
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
