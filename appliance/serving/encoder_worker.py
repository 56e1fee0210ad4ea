"""The thread that runs a model: one forward pass at a time, short requests first."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from appliance.serving.encoder_queue import SMALL, Request, Waiting

log = logging.getLogger("appliance.serving")

# Tokens of a forward pass: large enough that reading the weights is a few per cent of it
# (85 MB for bge-small), small enough that a query which arrives during one waits 0.1-0.2 s.
CHUNK = 512
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
        company, seconds = 1, 0.0
        while True:
            with self._changed:
                while not self._waiting and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    return
                self._await_company(company, seconds)
                self._waiting.drop([r for r in self._waiting.all() if r.owner.cancelled()])
                batch = self._waiting.next_batch(CHUNK)
            start = time.monotonic()
            if batch:
                self._serve(batch)
            company = len({id(request) for request, _ in batch})
            seconds = time.monotonic() - start

    def _await_company(self, company: int, seconds: float) -> None:
        """Let the clients of the last batch come back before the next one starts.

        Sixteen clients of short queries otherwise alternate between batches of one (the first
        to be back) and fifteen, at the cost of an eighth of a pass of waiting. A single client
        never waits.
        """
        if company > 1 and len(self._waiting) < company and self._waiting.size < SMALL:
            self._changed.wait_for(
                lambda: self._stopped or len(self._waiting) >= company, timeout=seconds / 8
            )

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
                _settle(request, _with_results(request.results))

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


def _with_results(results: list[Any]) -> Callable[[asyncio.Future[list[Any]]], object]:
    return lambda future: future.set_result(results)


def _settle(request: Request, end: Callable[[asyncio.Future[list[Any]]], object]) -> None:
    """Give a request's waiter its end, in the thread of its loop, unless it left."""
    future: asyncio.Future[list[Any]] = request.owner

    def settle() -> None:
        if not future.done():
            end(future)

    loop = future.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
