"""Batches by tokens instead of by texts, one forward pass at a time, short requests first.

Stock Infinity takes up to 32 texts in order of arrival, whatever their length, and sleeps
5 ms before and after: a query waits behind a bulk load for as long as that takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import infinity_emb.engine
from infinity_emb.inference import BatchHandler
from infinity_emb.primitives import OverloadStatus

from appliance.serving.encoder import accelerate
from appliance.serving.encoder_tokens import Tokens, tokens_of
from appliance.serving.encoder_worker import Forwarder

log = logging.getLogger("appliance.serving")

# Texts tokenized between two looks at other requests: 30 us each.
_TOKENIZE = 256


class TokenBatchHandler(BatchHandler):
    """Infinity's handler with its own queue and threads left out."""

    def __init__(self, model: Any, tokens: Tokens, **settings: Any) -> None:  # noqa: ANN401
        """Take the place of a stock handler.

        Args:
            model: what Infinity loaded.
            tokens: how its texts become tokens.
            settings: as Infinity's own handler takes them.
        """
        super().__init__(model_replicas=[model], **settings)
        self._model, self._tokens = model, tokens
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix="tokenize")

    async def spawn(self) -> None:
        self._forwarder = Forwarder(self._forward)

    async def shutdown(self) -> None:
        self._tokenizing.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._forwarder.stop)
        await asyncio.to_thread(self._threadpool.shutdown)

    def is_overloaded(self) -> bool:
        return len(self._forwarder) > self._max_queue_wait

    def overload_status(self) -> OverloadStatus:
        waiting = len(self._forwarder)
        return OverloadStatus(
            queue_fraction=waiting / self._max_queue_wait,
            queue_absolute=waiting,
            results_absolute=0,
        )

    async def _schedule(self, items: Sequence[Any]) -> tuple[list[Any], int]:
        """Results and usage of a request's texts."""
        _, usage = await self._get_prios_usage(items)
        inputs = [item.to_input() for item in items]
        loop = asyncio.get_running_loop()
        pieces: list[Any] = []
        lengths: list[int] = []
        for start in range(0, len(inputs), _TOKENIZE):
            part = inputs[start : start + _TOKENIZE]
            more, counts = await loop.run_in_executor(self._tokenizing, self._tokens.split, part)
            pieces += more
            lengths += counts
        return await self._forwarder.submit(pieces, lengths), usage

    def _forward(self, pieces: Sequence[Any]) -> Sequence[Any]:
        results: Sequence[Any] = self._model.encode_post(
            self._model.encode_core(self._tokens.features(pieces))
        )
        return results


def batch_handler(*, model_replicas: list[Any], **settings: Any) -> BatchHandler:  # noqa: ANN401
    """The handler for what Infinity loaded, with its encoder accelerated; the log says how."""
    for model in model_replicas:
        log.info(accelerate(model))
    tokens = tokens_of(model_replicas[0]) if len(model_replicas) == 1 else None
    if tokens is None or settings.get("vector_disk_cache_path"):
        log.info("Infinity's own batching serves this model.")
        return BatchHandler(model_replicas=model_replicas, **settings)
    return TokenBatchHandler(model_replicas[0], tokens, **settings)


def install() -> None:
    """Have Infinity's engines batch by tokens; call it before they are started."""
    # Its own name for the class, looked up at each start of an engine, is the one seam.
    vars(infinity_emb.engine)["BatchHandler"] = batch_handler
