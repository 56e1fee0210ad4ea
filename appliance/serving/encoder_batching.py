"""Batches by tokens instead of by texts, one forward pass at a time, short requests first.

Stock Infinity takes up to 32 texts in order of arrival, whatever their length, and sleeps
5 ms before and after: a query waits behind a bulk load for as long as that takes.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import infinity_emb.engine
import torch
from infinity_emb.inference import BatchHandler
from infinity_emb.primitives import OverloadStatus

from appliance.serving.encoder import accelerate
from appliance.serving.encoder_queue import Request, Waiting
from appliance.serving.encoder_tokens import Tokens, tokens_of

log = logging.getLogger("appliance.serving")

# Tokens of a forward pass: large enough that reading the weights is a few per cent of it
# (85 MB for bge-small), small enough that a query which arrives during one waits 0.1-0.2 s.
CHUNK = 512
# Texts tokenized between two looks at other requests: 30 us each.
_TOKENIZE = 256
# Every model's passes take turns: two at once would have twice the threads the cores can run.
_turn = threading.Lock()


class Forwarder:
    """The one thread that runs a model, and the requests that wait for it."""

    def __init__(self, run: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        """Start the thread.

        Args:
            run: pieces of a batch in, one result for each out.
        """
        self._run = run
        self._waiting = Waiting()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="forward", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Texts that wait."""
        with self._changed:
            return len(self._waiting)

    async def submit(self, pieces: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
        """Results of these texts, in order.

        Raises:
            Exception: what ``run`` raised for them; other requests are not touched by it.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        request = Request.of(pieces, lengths, time.monotonic(), future)
        with self._changed:
            if self._stopped:
                raise RuntimeError("The model is being shut down.")
            self._waiting.add(request)
            self._changed.notify()
        return await future

    def stop(self) -> None:
        """End the thread after the pass it is in; what still waits is cancelled."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()
        for request in self._waiting.all():
            _settle(request, lambda future: future.cancel())

    def _work(self) -> None:
        # A register of this thread, inherited by the OpenMP threads it starts: activations
        # near zero otherwise take a path a hundred times slower.
        torch.set_flush_denormal(True)
        while True:
            with self._changed:
                while not self._waiting and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    return
                self._waiting.drop([r for r in self._waiting.all() if r.owner.cancelled()])
                batch = self._waiting.next_batch(CHUNK)
            if batch:
                self._serve(batch)

    def _serve(self, batch: list[tuple[Request, int]]) -> None:
        try:
            with _turn, torch.inference_mode():
                results = self._run([request.pieces[index] for request, index in batch])
        except Exception as error:  # noqa: BLE001 - one bad request must not end the thread
            self._isolate(batch, error)
            return
        for (request, index), result in zip(batch, results, strict=True):
            request.results[index] = result
            request.missing -= 1
            if request.missing == 0:
                _settle(request, lambda future, done=request.results: future.set_result(done))

    def _isolate(self, batch: list[tuple[Request, int]], error: Exception) -> None:
        """After a failed pass: each request of it again on its own, or told of the failure."""
        requests = list({id(request): request for request, _ in batch}.values())
        if len(requests) > 1:
            for one in requests:
                self._serve([(request, index) for request, index in batch if request is one])
            return
        log.error("A forward pass failed: %r", error)
        with self._changed:
            self._waiting.drop(requests)
        _settle(requests[0], lambda future: future.set_exception(error))


def _settle(request: Request, end: Callable[[asyncio.Future[list[Any]]], object]) -> None:
    """Give a request's waiter its end, in the thread of its loop, unless it left."""
    future: asyncio.Future[list[Any]] = request.owner

    def settle() -> None:
        if not future.done():
            end(future)

    loop = future.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)


class TokenBatchHandler(BatchHandler):  # type: ignore[misc] # Infinity's class has no types
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
    infinity_emb.engine.BatchHandler = batch_handler
