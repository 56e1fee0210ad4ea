"""Which texts go through the encoder next: a pure rule over the requests that wait.

Requests have a deadline in proportion to their size, and the earliest goes first: a query
overtakes a bulk load that came before it, and a bulk load that has waited its due overtakes
the queries that came after.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# Tokens a second by which deadlines are set; a slow CPU's rate. Only proportions matter.
_RATE = 2000.0
# A request shares its batch with others of up to this many tokens, or of four times its own
# size: eight queries together cost each little more than one alone (the weights are read
# once), while a query inside a full chunk of passages would wait for all of it.
SMALL, _COMPANY = 128, 4


@dataclass(order=True)
class Request:
    """Texts that were sent together.

    Attributes:
        deadline: seconds on the clock of ``arrived``; smaller goes first.
        pieces: the texts as tokens, opaque here.
        lengths: tokens of each.
        order: indices of the texts not yet handed out, the next one last.
        results: one place a text, filled as they come.
        owner: whom the results are for, opaque here.
    """

    deadline: float
    pieces: Sequence[Any] = field(compare=False, repr=False)
    lengths: Sequence[int] = field(compare=False, repr=False)
    order: list[int] = field(compare=False, repr=False)
    results: list[Any] = field(compare=False, repr=False)
    missing: int = field(compare=False)
    size: int = field(compare=False)
    owner: Any = field(compare=False, repr=False)

    @classmethod
    def of(
        cls,
        pieces: Sequence[Any],
        lengths: Sequence[int],
        arrived: float,
        owner: Any = None,  # noqa: ANN401 - opaque
    ) -> Request:
        """A request as it arrives; its texts are served shortest first, so equal lengths meet."""
        size = sum(lengths)
        order = sorted(range(len(pieces)), key=lengths.__getitem__, reverse=True)
        return cls(
            deadline=arrived + size / _RATE,
            pieces=pieces,
            lengths=lengths,
            order=order,
            results=[None] * len(pieces),
            missing=len(pieces),
            size=size,
            owner=owner,
        )


class Waiting:
    """The requests with texts still to be handed out."""

    def __init__(self) -> None:
        self._heap: list[Request] = []

    def __len__(self) -> int:
        """Texts that wait."""
        return sum(len(request.order) for request in self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def size(self) -> int:
        """Tokens of the requests that wait."""
        return sum(request.size for request in self._heap)

    def add(self, request: Request) -> None:
        heapq.heappush(self._heap, request)

    def drop(self, gone: Sequence[Request]) -> None:
        """Forget requests that failed or that nobody waits for any more."""
        self._heap = [r for r in self._heap if not any(r is g for g in gone)]
        heapq.heapify(self._heap)

    def all(self) -> list[Request]:
        return list(self._heap)

    def next_batch(self, chunk: int) -> list[tuple[Request, int]]:
        """Take the texts of one forward pass.

        Args:
            chunk: tokens it may hold, unless its first text alone is longer.

        Returns:
            (request, index of a text in it) pairs; empty when nothing waits.
        """
        batch: list[tuple[Request, int]] = []
        room = chunk
        kept: list[Request] = []
        company = 0
        while self._heap and room > 0:
            request = heapq.heappop(self._heap)
            company = company or max(SMALL, _COMPANY * request.size)
            if not batch or request.size <= company:
                room = self._take(request, room, batch)
            if request.order:
                kept.append(request)
        for request in kept:
            heapq.heappush(self._heap, request)
        return batch

    @staticmethod
    def _take(request: Request, room: int, batch: list[tuple[Request, int]]) -> int:
        while request.order and (not batch or request.lengths[request.order[-1]] <= room):
            index = request.order.pop()
            batch.append((request, index))
            room -= request.lengths[index]
        return room
