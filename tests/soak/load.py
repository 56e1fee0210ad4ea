"""Clients by the dozen: as fast as they can, and at moments that do not wait for answers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.soak.client import Client, Door
from tests.soak.trace import Call, Values, differ, shuffled, values

EAGER = 32  # clients that measure the capacity
# Clients of the open load. When all are busy a call is late, and its time counts from when it
# was due.
CLIENTS = 128
# A number of a vector, against the same text's when nothing else was asked: other company in a
# forward pass, and half-precision weights for short texts, move it by a thousandth.
TOLERANCE = 0.01

Task = Callable[[Client], None]


@dataclass(frozen=True)
class Sent:
    """One call: when it was due (monotonic clock), seconds from then to its whole answer."""

    kind: str
    due: float
    took: float
    failure: str = ""


@dataclass
class Load:
    """A machine under load; ``sent`` are its calls, in the order of the answers."""

    door: Door
    deck: Sequence[Call]
    draw: random.Random
    expected: Mapping[Call, Values] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)

    def learn(self) -> None:
        """Ask everything once, one by one: what the answers under load are compared with."""
        client = Client(self.door)
        self.expected = {call: values(call, client.send(call)) for call in self.deck}
        client.close()

    def capacity(self, seconds: float) -> float:
        """Answers a second, with ``EAGER`` clients that ask again as soon as they are answered."""
        calls, lock = shuffled(self.deck, self.draw), threading.Lock()
        end = time.monotonic() + seconds

        def until_the_end(client: Client) -> None:
            while time.monotonic() < end:
                with lock:
                    call = next(calls)
                self._send(client, call, time.monotonic())

        self._all(EAGER, until_the_end)
        return sum(sent.due + sent.took <= end for sent in self.sent) / seconds

    def open(self, rate: float, seconds: float) -> None:
        """Calls at the moments of a Poisson process; returns at the end, all answered."""
        end = time.monotonic() + seconds
        due, lock = self._moments(rate, end), threading.Lock()

        def when_due(client: Client) -> None:
            while True:
                with lock:
                    call, moment = next(due, (None, 0.0))
                if call is None:
                    return
                time.sleep(max(0.0, moment - time.monotonic()))
                self._send(client, call, moment)

        self._all(CLIENTS, when_due)
        time.sleep(max(0.0, end - time.monotonic()))

    def taken(self) -> list[Sent]:
        """The calls since the last time this was asked."""
        taken, self.sent = self.sent, []
        return taken

    def _moments(self, rate: float, end: float) -> Iterator[tuple[Call, float]]:
        moment = time.monotonic()
        for call in shuffled(self.deck, self.draw):
            moment += self.draw.expovariate(rate)
            if moment >= end:
                return
            yield call, moment

    def _send(self, client: Client, call: Call, due: float) -> None:
        failure = ""
        try:
            off = differ(values(call, client.send(call)), self.expected[call])
            if off > TOLERANCE:
                failure = f"another answer than without load, off by {off:.3f}"
        except (OSError, ValueError, KeyError) as error:
            failure = str(error)
        self.sent.append(Sent(call.kind, due, time.monotonic() - due, failure))

    def _all(self, count: int, task: Task) -> None:
        clients = [Client(self.door) for _ in range(count)]
        threads = [threading.Thread(target=task, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for client in clients:
            client.close()
