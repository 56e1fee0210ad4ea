"""A machine under load for minutes: its capacity measured, most of that asked for, over again."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from machine.instance import Machine
from tests.soak.client import Client, Door
from tests.soak.load import Load, Sent
from tests.soak.memory import Sample, watched
from tests.soak.trace import Call, deck

# Seconds. A shared computer is faster or slower by a third a few minutes later, so the capacity
# is measured at the start of each stretch, and the load follows it.
STRETCH, MEASURE = 300.0, 15.0
# Seconds until calls have come in every company, each of which has buffers of its own; and samples
# after that, whose median is the level that memory is to keep.
WARM_UP, LEVEL = 60.0, 7


@dataclass(frozen=True)
class Soak:
    """What came of it.

    Attributes:
        began, ended: moments of the monotonic clock.
        capacities: calls a second, measured at the start of each stretch.
        offered: calls a second, asked for in the rest of it.
        eager: the calls that measured the capacity.
        load: the calls of the trace, in the order in which they were due.
        memory: of the server's processes.
    """

    began: float
    ended: float
    capacities: Sequence[float]
    offered: Sequence[float]
    eager: Sequence[Sent]
    load: Sequence[Sent]
    memory: Sequence[Sample]

    @property
    def failed(self) -> list[str]:
        """Every call that brought no answer, or a wrong one."""
        return [f"{s.kind}: {s.failure}" for s in (*self.eager, *self.load) if s.failure]

    @property
    def strayed(self) -> float:
        """How far memory went from its level after the warm-up, as a fraction of that."""
        warm = [each.megabytes for each in self.memory if each.moment >= self.began + WARM_UP]
        level = statistics.median(warm[:LEVEL])
        return max(abs(megabytes / level - 1) for megabytes in warm)

    @property
    def slowed(self) -> float:
        """Median latency of the last third of the load to that of the first third."""
        third = len(self.load) // 3
        first, last = (
            statistics.median(sent.took for sent in part)
            for part in (self.load[:third], self.load[-third:])
        )
        return last / first


def soak(machine: Machine, seconds: float, share: float) -> Soak:
    """Load a machine that serves.

    Args:
        machine: whom.
        seconds: how long, capacity measurements included.
        share: of the capacity, that is asked for.
    """
    door = Door.of(machine)
    load = Load(door, trace(door), random.Random())  # noqa: S311 - moments, no secrets
    load.learn()
    eager: list[Sent] = []
    asked: list[Sent] = []
    capacities: list[float] = []
    offered: list[float] = []
    with watched(machine) as memory:
        began = time.monotonic()
        end = began + seconds
        while (start := time.monotonic()) < end:
            capacities.append(load.capacity(MEASURE))
            passed = (time.monotonic() - began) / 60
            print(f"{passed:5.1f} min: capacity {capacities[-1]:.1f} calls/s", flush=True)
            eager += load.taken()
            rest = min(end, start + STRETCH) - time.monotonic()
            load.open(share * capacities[-1], rest)
            part = load.taken()
            offered.append(len(part) / rest)
            asked += part
        ended = time.monotonic()
    asked.sort(key=lambda sent: sent.due)
    return Soak(began, ended, capacities, offered, eager, asked, memory)


def trace(door: Door) -> list[Call]:
    """The deck for the models that the machine serves."""
    client = Client(door)
    able = {task: each["id"] for each in client.models()["data"] for task in each["capabilities"]}
    client.close()
    return deck(able["embed"], able.get("rerank"))
