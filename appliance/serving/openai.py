"""What each route does with a checked request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from appliance.serving import answers, bodies, requests
from appliance.serving.admission import MAX_TOKENS, Admission
from appliance.serving.answers import Answer
from appliance.serving.catalog import Catalog
from appliance.serving.errors import internal, invalid
from appliance.serving.metrics import Metrics
from appliance.serving.models import Reading, Served

_TASK = {"image": "image_embed", "audio": "audio_embed"}
# Bytes of a body that are parsed and checked in the event loop's own thread (1 ms).
_INLINE = 2**17

Asked = TypeVar("Asked")


class Api:
    """The routes that do work."""

    def __init__(self, catalog: Catalog, admission: Admission, metrics: Metrics) -> None:
        self._catalog, self._admission, self._metrics = catalog, admission, metrics

    async def embeddings(self, body: bytes) -> Answer:
        asked = await _checked(requests.embedding, body)
        model = self._catalog.resolve(asked.model, _TASK.get(asked.modality, "embed"))
        check_dimensions(model, asked.dimensions)
        reading = await self._read(model, asked.texts, "input", truncate=asked.truncate)
        with self._admission.work(reading.tokens):
            results = await model.run(reading)
            vectors = [answers.resized(vector, asked.dimensions) for vector in results]
            if asked.dimensions and not all(np.isfinite(v).all() for v in vectors):
                raise internal("A vector of these dimensions has no direction.")
            chunks = await answers.embeddings(model.name, vectors, asked.encoding, reading.tokens)
        return Answer(200, chunks, _truncation(reading))

    async def rerank(self, body: bytes) -> Answer:
        asked = await _checked(requests.rerank, body)
        model = self._catalog.resolve(asked.model, "rerank")
        pairs = [(asked.query, document) for document in asked.documents]
        reading = await self._read(model, pairs, "documents", truncate=asked.truncate)
        with self._admission.work(reading.tokens):
            raw = np.array(await model.run(reading), dtype=np.float64).reshape(len(pairs))
        scores = raw if asked.raw_scores else 1 / (1 + np.exp(-raw))
        ranked = [(int(i), float(scores[i])) for i in np.argsort(-scores, kind="stable")]
        texts = asked.documents if asked.return_documents else None
        shape = answers.rerank(model.name, ranked[: asked.top_n], texts, reading.tokens)
        return replace(answers.json(shape), headers=_truncation(reading))

    async def classify(self, body: bytes) -> Answer:
        asked = await _checked(requests.classify, body)
        model = self._catalog.resolve(asked.model, "classify")
        reading = await self._read(model, asked.texts, "input", truncate=asked.truncate)
        with self._admission.work(reading.tokens):
            labels = await model.run(reading)
        shape = answers.classify(model.name, labels, reading.tokens)
        return replace(answers.json(shape), headers=_truncation(reading))

    def models(self) -> Answer:
        data = [answers.model(model, self._queue()) for model in self._catalog.models]
        return answers.json({"data": data, "object": "list"})

    def model(self, name: str) -> Answer:
        return answers.json(answers.model(self._catalog.get(name), self._queue()))

    def _queue(self) -> dict[str, Any]:
        return {
            "queue_fraction": self._admission.tokens / MAX_TOKENS,
            "queue_absolute": self._admission.requests,
            "results_pending": self._admission.requests,
            "queue_tokens": self._admission.tokens,
        }

    async def _read(
        self, model: Served, inputs: list[Any], param: str, *, truncate: bool
    ) -> Reading:
        """Tokenize; refuse or count what is longer than the window."""
        reading = await model.read(inputs)
        if any(reading.cut):
            if not truncate:
                index = reading.cut.index(True)
                raise invalid(
                    f"'{param}[{index}]' is longer than the model's window of "
                    f"{reading.lengths[index]} tokens, and 'truncate' is false.",
                    param,
                    "context_length_exceeded",
                )
            self._metrics.truncated.labels(model.name).inc(sum(reading.cut))
        return reading


async def _checked(check: Callable[[dict[str, Any]], Asked], body: bytes) -> Asked:
    if len(body) <= _INLINE:
        return check(bodies.parse(body))
    return await asyncio.to_thread(lambda: check(bodies.parse(body)))


def check_dimensions(model: Served, dimensions: int | None) -> None:
    """Raise 400 unless the model has vectors of this size."""
    if dimensions is None or dimensions in (model.dimensions, *model.matryoshka):
        return
    sizes = ", ".join(str(size) for size in sorted({model.dimensions, *model.matryoshka}))
    raise invalid(
        f"'dimensions' can be {sizes} with this model, not {dimensions}.",
        "dimensions",
        "invalid_value",
    )


def _truncation(reading: Reading) -> dict[str, str]:
    """The header that counts cut inputs; left out where none was."""
    cut = sum(reading.cut)
    return {"X-Truncated-Inputs": str(cut)} if cut else {}
