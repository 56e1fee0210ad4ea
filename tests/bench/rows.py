"""The lines of the report: what was promised, what was measured, whether it holds."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from tests.bench import soak
from tests.bench.measure import (
    AGREEMENT,
    BUSY,
    CLIENTS,
    MANY_MIXED,
    MIXED,
    PEAK,
    QUERY,
    SIZES,
    Runs,
    medians,
)

GATE = "short query through the gate by turns, s"
START = "start to first embedding, s"
MEMORY = "most memory held under the loads, MB"
SOAK = "memory held during the soak, MB"


@dataclass(frozen=True)
class Row:
    """One promise; ``measured`` is None where this run could not measure it."""

    name: str
    measured: float | None
    bar: str
    holds: bool


def at_least(name: str, measured: float | None, bar: float) -> Row:
    return Row(name, measured, f">= {bar:g}", measured is not None and measured >= bar)


def at_most(name: str, measured: float | None, bar: float) -> Row:
    return Row(name, measured, f"<= {bar:g}", measured is not None and measured <= bar)


def rows(runs: Runs, flop_per_token: float) -> list[Row]:
    """All promises against the figures of one run; of a token's work, attention left out."""
    found = medians(runs)

    def ratio(load: str, other: str, mine: str = "ours") -> float | None:
        values = found.get(load, {})
        return values[mine] / values[other] if {mine, other} <= set(values) else None

    gate = found.get(GATE, {})
    return [
        at_least("32 mixed passages: tokens/s against stock Infinity", ratio(MIXED, "stock"), 2.4),
        at_least(
            "256 mixed passages: tokens/s against stock Infinity", ratio(MANY_MIXED, "stock"), 2.4
        ),
        at_least("32 mixed passages: tokens/s against fastembed", ratio(MIXED, "fastembed"), 2),
        at_least("32 mixed passages: tokens/s against llama.cpp", ratio(MIXED, "llama.cpp"), 2),
        at_least("32 mixed passages: share of the matrix-product peak",
                 _share(runs, flop_per_token), 0.8),
        at_most("one short query: time against stock Infinity", ratio(QUERY, "stock"), 0.45),
        at_most("one short query: time against ONNX Runtime", ratio(QUERY, "fastembed"), 1),
        at_least("16 clients: queries/s against stock Infinity", ratio(CLIENTS, "stock"), 2.5),
        at_most("gate: ms added to a keep-alive query",
                (gate["gate"] - gate["ours"]) * 1e3 if gate else None, 1.5),
        at_most("start to first embedding against stock Infinity", ratio(START, "stock"), 0.35),
        at_most("most memory held under the loads, MB", found.get(MEMORY, {}).get("ours"), 650),
        at_most("memory: change over the soak, %", _growth(runs), 3),
        at_most("tokens/s from 10 to 2,048 inputs: spread, %", _spread(found), 15),
        _overtakes(found),
        at_least("least cosine to stock Infinity", found[AGREEMENT].get("ours"), 0.99999),
    ]  # fmt: skip


def int8(runs: Runs) -> list[Row]:
    """What the opt-in format promises on top, with a model whose weights are real."""
    found = medians(runs)
    values, cosines = found[MIXED], found[AGREEMENT]
    return [
        at_least("int8, 32 mixed passages: tokens/s against float32",
                 values["ours int8"] / values["ours"], 1.5),
        at_least("int8: least cosine to stock Infinity", cosines["ours int8"], 0.995),
    ]  # fmt: skip


def _share(runs: Runs, flop_per_token: float) -> float:
    """Of the peak taken right after each round."""
    pairs = zip(runs[MIXED]["ours"], runs[PEAK]["machine"], strict=True)
    return statistics.median(rate * flop_per_token / peak for rate, peak in pairs)


def _growth(runs: Runs) -> float | None:
    return abs(soak.growth(runs[SOAK]["ours"])) * 100 if SOAK in runs else None


def _overtakes(found: dict[str, dict[str, float]]) -> Row:
    """A query during a bulk load: three times its idle time, and one chunk of 512 tokens."""
    bar = 3 * found[QUERY]["ours"] + 512 / found[MIXED]["ours"]
    return at_most(BUSY, found.get(BUSY, {}).get("ours"), round(bar, 3))


def _spread(found: dict[str, dict[str, float]]) -> float | None:
    rates = [found[size]["ours"] for size in SIZES if "ours" in found.get(size, {})]
    return (max(rates) / min(rates) - 1) * 100 if len(rates) == len(SIZES) else None
