"""What may wait: bounded in tokens and in bytes, so that memory is bounded too.

A count of requests would not do: one text of three tokens and 2,048 passages of 512 are
both one request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from appliance.serving.errors import overloaded

# Two minutes of work for the bundled model on two cores. Whoever comes later does better to
# be told so at once than to wait for a gateway's timeout.
MAX_TOKENS = 2**18
# Bytes of request bodies held at a time. A parsed body takes up to nine times its size for an
# instant (token ids as Python numbers) and up to four times while it waits (wide characters).
MAX_BYTES = 64 * 2**20
# A request's own objects, in tokens: with it, and with what is kept for small ones, at most 4,608
# can wait.
PER_REQUEST = 64
# Parts of the room: what is kept beyond it for small requests, and what of that one of them is. A
# bulk load that takes all the room would otherwise refuse every query that is about to overtake it.
KEPT, SMALL = 8, 16


class Admission:
    """The room that is taken; used from the event loop's thread alone."""

    def __init__(
        self, rate: Callable[[], float], tokens: int = MAX_TOKENS, size: int = MAX_BYTES
    ) -> None:
        """Start empty.

        Args:
            rate: the tokens a second the model manages at present, for Retry-After.
            tokens: the most that wait and run together, besides an eighth for small requests;
                one larger request is let in alone.
            size: the most bytes of bodies.
        """
        self._rate = rate
        self._max_tokens, self._max_bytes = tokens, size
        self._kept, self._small = tokens // KEPT, 0
        self.tokens = self.bytes = self.requests = 0

    @contextmanager
    def work(self, tokens: int) -> Iterator[None]:
        """Hold room for a request's tokens; 429 at once when there is none."""
        cost = tokens + PER_REQUEST
        small = cost if cost <= self._kept // SMALL else 0
        fits = not self.tokens or self.tokens + cost <= self._max_tokens
        if not fits and not (small and self._small + small <= self._kept):
            raise overloaded(self.retry_seconds())
        self.tokens += cost
        self._small += small
        self.requests += 1
        try:
            yield
        finally:
            self.tokens -= cost
            self._small -= small
            self.requests -= 1

    def retry_seconds(self) -> int:
        """When a quarter of what waits will be done, 1 to 60 s."""
        return min(60, max(1, math.ceil(self.tokens / 4 / max(self._rate(), 1.0))))

    @contextmanager
    def body(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that takes room for more bytes of one body, or raises 429."""
        held = 0

        def take(size: int) -> None:
            nonlocal held
            if self.bytes and self.bytes + size > self._max_bytes:
                raise overloaded(self.retry_seconds())
            held += size
            self.bytes += size

        try:
            yield take
        finally:
            self.bytes -= held
