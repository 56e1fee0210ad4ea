"""A model that is served, and the one way to run it.

Infinity's own BatchHandler is not in that way: an exception in one of its threads ends the
thread and leaves every request, present and future, waiting for ever. Its models, and the
steps they offer (encode_pre, encode_core, encode_post), or the short way through those that
``encoder_embedder`` knows, are what runs; requests reach them through
``encoder_worker.Forwarder``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from appliance.serving.encoder_embedder import embedder_of
from appliance.serving.encoder_tokens import Tokens, tokens_of
from appliance.serving.encoder_worker import Forwarder
from appliance.serving.errors import internal, unavailable
from appliance.serving.metrics import Metrics
from appliance.serving.passes import Passes

log = logging.getLogger("appliance.serving")

TASKS = ("embed", "rerank", "classify")
CANARY = "A canary in a coal mine still sings."
# Characters tokenized in the event loop's own thread (2 ms); more goes to another, in parts,
# so that the parts of several requests take turns.
_INLINE, _PART = 4000, 64


@dataclass(frozen=True)
class Reading:
    """Texts as the model reads them: tokens, their number, and whether the text was longer."""

    pieces: list[Any]
    lengths: list[int]
    cut: list[bool]

    @property
    def tokens(self) -> int:
        return sum(self.lengths)


class AsIs:
    """How a model reads texts when only it can say (a tokenizer that is not a fast one)."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - any model Infinity can load
        self._model = model

    def split(self, inputs: Sequence[Any]) -> tuple[list[Any], list[int]]:
        texts = [item if isinstance(item, str) else " ".join(item) for item in inputs]
        return list(inputs), list(self._model.tokenize_lengths(texts))

    def read(self, inputs: Sequence[Any]) -> tuple[list[Any], list[int], list[bool]]:
        pieces, lengths = self.split(inputs)
        return pieces, lengths, [False] * len(pieces)

    def features(self, pieces: Sequence[Any]) -> Any:  # noqa: ANN401 - the model's own
        return self._model.encode_pre(list(pieces))


class Served:
    """One model under its served name.

    Attributes:
        capabilities: what it can do, of TASKS.
        dimensions: of its vectors; 0 for a model that does not embed.
        matryoshka: smaller sizes its configuration declares.
    """

    def __init__(
        self,
        name: str,
        model: Any,  # noqa: ANN401 - any model Infinity can load
        passes: Passes,
        metrics: Metrics,
        *,
        suspect: Callable[[], None],
        matryoshka: tuple[int, ...] = (),
    ) -> None:
        """Start the thread that runs the model.

        Args:
            name: what clients call it.
            model: what Infinity loaded.
            passes: told of each forward pass.
            metrics: the same.
            suspect: called in the event loop when a pass raised.
            matryoshka: see above.
        """
        self.name, self.matryoshka = name, matryoshka
        self.created = int(time.time())
        self.capabilities = tuple(task for task in TASKS if task in model.capabilities)
        self.dimensions = 0
        self._model, self._passes, self._metrics = model, passes, metrics.of(name)
        self._suspect = suspect
        self._tokens: Tokens = tokens_of(model) or AsIs(model)
        short: Any = embedder_of(model, self._tokens)
        self._steps: Callable[[Sequence[Any]], Sequence[Any]] = short or self._infinitys_steps
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix="tokenize")
        self._forwarder = Forwarder(self._forward)

    async def read(self, inputs: Sequence[Any]) -> Reading:
        """Tokenize texts, or (query, document) pairs."""
        if sum(map(_characters, inputs)) <= _INLINE:
            return Reading(*self._tokens.read(inputs))
        whole = Reading([], [], [])
        loop = asyncio.get_running_loop()
        for start in range(0, len(inputs), _PART):
            part = inputs[start : start + _PART]
            pieces, lengths, cut = await loop.run_in_executor(
                self._tokenizing, self._tokens.read, part
            )
            whole.pieces.extend(pieces)
            whole.lengths.extend(lengths)
            whole.cut.extend(cut)
        return whole

    async def run(self, reading: Reading) -> list[Any]:
        """One result a text, in order: a vector, a score, or labels with scores.

        Raises:
            ApiError: 503 when the model raised, 500 for a result that is not finite.
        """
        try:
            results = await self._forwarder.submit(reading.pieces, reading.lengths)
        except Exception as error:
            log.exception("%s failed on %d texts.", self.name, len(reading.pieces))
            self._suspect()
            raise unavailable() from error
        if not all(map(_finite, results)):
            log.error("%s gave a result that is not finite.", self.name)
            raise internal("The model gave a result that is not a finite number.")
        self._metrics.tokens.inc(reading.tokens)
        self._metrics.texts.inc(len(results))
        return results

    async def canary(self) -> None:
        """Raise unless a good answer comes back."""
        probe = (CANARY, CANARY) if "rerank" in self.capabilities else CANARY
        pieces, lengths = self._tokens.split([probe])
        [result] = await self._forwarder.submit(pieces, lengths)
        if not _finite(result):
            raise internal("The canary's result is not finite.")
        if "embed" in self.capabilities:
            self.dimensions = int(np.shape(result)[-1])

    def stop(self) -> None:
        """End the threads after what they are at."""
        self._tokenizing.shutdown(wait=False, cancel_futures=True)
        self._forwarder.stop()

    def _forward(self, pieces: Sequence[Any]) -> Sequence[Any]:
        """One pass, in the model's thread."""
        tokens = sum(map(_tokens, pieces))
        self._metrics.batch_texts.observe(len(pieces))
        self._metrics.batch_tokens.observe(tokens)
        with (
            self._metrics.failures.count_exceptions(),
            self._metrics.forward.time(),
            self._passes.one(tokens),
        ):
            results: Sequence[Any] = self._steps(pieces)
        return results

    def _infinitys_steps(self, pieces: Sequence[Any]) -> Sequence[Any]:
        features = self._tokens.features(pieces)
        results: Sequence[Any] = self._model.encode_post(self._model.encode_core(features))
        return results


def _characters(item: str | tuple[str, str]) -> int:
    return len(item) if isinstance(item, str) else len(item[0]) + len(item[1])


def _tokens(piece: Any) -> int:  # noqa: ANN401 - (2, tokens), or a text, at four characters a token
    return int(piece.shape[1]) if isinstance(piece, np.ndarray) else _characters(piece) // 4 + 1


def _finite(result: Any) -> bool:  # noqa: ANN401 - a vector, a number, or labels with scores
    if isinstance(result, list):
        return all(np.isfinite(label["score"]) for label in result)
    return bool(np.isfinite(result).all())
