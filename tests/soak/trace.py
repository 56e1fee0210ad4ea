"""What is sent: a deck of calls in fixed proportions, shuffled for every deal.

Each deal holds the same calls, so that a few hundred of them cost the same whenever they are
measured. Documents come as several passages a call, queries one by one, as in a search service.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.bench import texts

Values = npt.NDArray[np.float32]

DECKS = 2  # different texts; more take longer to ask for before the load
QUERIES, PASSAGES, SMALL_BATCHES, BATCHES, RERANKS = 26, 8, 3, 1, 2  # calls of a deck
SMALL_BATCH, BATCH, DOCUMENTS = 8, 32, 10  # texts of a call


@dataclass(frozen=True)
class Call:
    """One request: where it goes, its JSON, and how many answers it must bring."""

    kind: str
    path: str
    body: bytes
    answers: int


def deck(embedder: str, reranker: str | None) -> list[Call]:
    """Every call of the trace once; without a reranker it has none of its calls."""
    return [call for seed in range(DECKS) for call in _deck(embedder, reranker, seed)]


def _deck(embedder: str, reranker: str | None, seed: int) -> Iterator[Call]:
    for text in texts.short(QUERIES, seed):
        yield _embed("query", embedder, [text])
    for text in texts.mixed(PASSAGES, seed):
        yield _embed("passage", embedder, [text])
    for number in range(SMALL_BATCHES):
        batch = texts.mixed(SMALL_BATCH, 100 * seed + number + 1)
        yield _embed(f"batch of {SMALL_BATCH}", embedder, batch)
    for number in range(BATCHES):
        yield _embed(f"batch of {BATCH}", embedder, texts.mixed(BATCH, 100 * seed + 50 + number))
    for number in range(RERANKS if reranker else 0):
        query, *documents = texts.short(1 + DOCUMENTS, 100 * seed + 70 + number)
        body = {"model": reranker, "query": query, "documents": documents}
        yield Call("rerank", "/v1/rerank", json.dumps(body).encode(), DOCUMENTS)


def _embed(kind: str, model: str, items: Sequence[str]) -> Call:
    # base64 as OpenAI's SDK asks for it: the client's part of the cost stays small.
    body = {"model": model, "input": items, "encoding_format": "base64"}
    return Call(kind, "/v1/embeddings", json.dumps(body).encode(), len(items))


def shuffled(calls: Sequence[Call], draw: random.Random) -> Iterator[Call]:
    """Deal the deck for ever, in another order each time."""
    while True:
        yield from draw.sample(calls, len(calls))


def values(call: Call, raw: bytes) -> Values:
    """What an answer says: a vector for each text, or a score for each document, as rows.

    Raises:
        ValueError: an answer is missing, or is none.
    """
    found: Any = json.loads(raw)
    if call.kind == "rerank":
        by_document = {each["index"]: each["relevance_score"] for each in found["results"]}
        rows = np.array([[by_document.get(i, np.nan)] for i in range(call.answers)], np.float32)
    else:
        data = sorted(found["data"], key=lambda each: each["index"])
        rows = np.stack([np.frombuffer(base64.b64decode(e["embedding"]), "<f4") for e in data])
    if len(rows) != call.answers or not np.isfinite(rows).all():
        raise ValueError(f"{len(rows)} answers for {call.answers} inputs, or not all are numbers")
    return rows


def differ(found: Values, expected: Values) -> float:
    """The largest difference of any number."""
    return float(np.abs(found - expected).max())
