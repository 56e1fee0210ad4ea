"""The forward passes as they happen: for the watchdog, for Retry-After, for the metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A pass may take this long before it counts as hung, or ten times what its tokens cost lately:
# one text that fills a large model's window is slow, not stuck.
PATIENCE, SLACK = 8.0, 10.0
# The first one packs weights and generates code, on a machine that is still starting; nobody waits.
FIRST_PATIENCE = 90.0
_SMOOTHING = 0.2


class Passes:
    """What runs now and how fast it went so far; written by the threads that run models."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[int, tuple[float, int]] = {}
        self._finished = clock()
        self._rate = 0.0

    @property
    def rate(self) -> float:
        """Tokens a second lately; 0.0 before the first pass."""
        return self._rate

    @property
    def idle_since(self) -> float:
        """When the last pass ended, on the clock."""
        return self._finished

    def overdue(self, now: float) -> bool:
        """Whether a pass takes longer than can be explained."""
        with self._lock:
            return any(now - start > self._allowed(size) for start, size in self._running.values())

    def busy(self) -> bool:
        return bool(self._running)

    @contextmanager
    def one(self, tokens: int) -> Iterator[None]:
        """Around a forward pass of this many tokens."""
        start = self._clock()
        with self._lock:
            self._running[threading.get_ident()] = (start, tokens)
        try:
            yield
        finally:
            now = self._clock()
            with self._lock:
                del self._running[threading.get_ident()]
                self._finished = now
                if now > start:
                    self._learn(tokens / (now - start))

    def _allowed(self, tokens: int) -> float:
        return max(PATIENCE, SLACK * tokens / self._rate) if self._rate else FIRST_PATIENCE

    def _learn(self, rate: float) -> None:
        self._rate += _SMOOTHING * (rate - self._rate) if self._rate else rate
