"""What was promised of the load, what was measured, whether it holds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tests.bench.rows import Row, at_least, at_most
from tests.soak.load import Sent
from tests.soak.run import Soak


def rows(found: Soak, minutes: float, share: float) -> list[Row]:
    """All promises against one run of so many minutes at that share of the capacity."""
    asked = sum(found.offered) / sum(found.capacities)
    return [
        at_least("minutes under load", (found.ended - found.began) / 60, minutes),
        at_least("share of the capacity measured in this run", asked, share - 0.03),
        at_most("failed requests", len(found.failed), 0),
        at_most("memory: largest distance from after the warm-up, %", found.strayed * 100, 3),
        at_most("latency: median of the last third to the first third's", found.slowed, 1.25),
    ]


def kinds(sent: Sequence[Sent]) -> dict[str, dict[str, float]]:
    """For each kind of call: how many, and seconds that half and that 99 of 100 took at most."""
    by_kind: dict[str, list[float]] = {}
    for each in sent:
        by_kind.setdefault(each.kind, []).append(each.took)
    return {
        kind: {
            "calls": len(took),
            "median_s": round(statistics.median(took), 4),
            "p99_s": round(sorted(took)[int(0.99 * len(took))], 4),
        }
        for kind, took in sorted(by_kind.items())
    }
