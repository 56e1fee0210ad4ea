"""The lines of the report: what was promised, what was measured, whether it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_MIXED = "32 mixed passages, tokens/s"
_QUERY = "one short query, s"
_CLIENTS = "16 clients of short queries, 1/s"
_BUSY = "short query during a bulk load, s"
_SIZES = ("10 inputs", "100 inputs", "1,000 inputs", "2,048 short texts")


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


def rows(
    medians: dict[str, dict[str, float]],
    *,
    flop_per_token: float,
    peak: float,
    starts: dict[str, float],
    resident: float,
    growth: float | None,
    gate: float | None,
) -> list[Row]:
    """All promises against one run.

    Args:
        medians: load -> server -> median.
        flop_per_token: of the model.
        peak: the machine's matrix-product peak, FLOP/s.
        starts: server -> seconds to its first embedding.
        resident: the most memory ours held, MB.
        growth: of our memory over the soak, as a fraction; None without one.
        gate: seconds that TLS, nginx and key add to a query; None without a gate.
    """

    def ratio(load: str, other: str) -> float | None:
        values = medians.get(load, {})
        return values["ours"] / values[other] if {"ours", other} <= set(values) else None

    found = [
        at_least("mixed passages: tokens/s against stock Infinity", ratio(_MIXED, "stock"), 2.4),
        at_least("mixed passages: tokens/s against fastembed", ratio(_MIXED, "fastembed"), 2),
        at_least("mixed passages: tokens/s against llama.cpp", ratio(_MIXED, "llama.cpp"), 2),
        at_least(
            "mixed passages: share of the matrix-product peak",
            medians[_MIXED]["ours"] * flop_per_token / peak,
            0.8,
        ),
        at_most("one short query: time against stock Infinity", ratio(_QUERY, "stock"), 0.45),
        at_most("one short query: time against ONNX Runtime", ratio(_QUERY, "fastembed"), 1),
        at_least("16 clients: queries/s against stock Infinity", ratio(_CLIENTS, "stock"), 2.5),
        at_most("gate: ms added to a keep-alive query", None if gate is None else gate * 1e3, 1.5),
        at_most("start to first embedding against stock", starts["ours"] / starts["stock"], 0.35),
        at_most("resident memory, MB", resident, 650),
        at_most("memory: growth over the soak, %", None if growth is None else growth * 100, 3),
        at_most("tokens/s from 10 to 2,048 inputs: spread, %", _spread(medians), 15),
    ]
    if {_BUSY, _QUERY} <= set(medians):
        found.append(_overtakes(medians))
    return found


def _overtakes(medians: dict[str, dict[str, float]]) -> Row:
    """A query during a bulk load: three times its idle time, and one chunk of 512 tokens."""
    idle, busy = medians[_QUERY]["ours"], medians[_BUSY]["ours"]
    bar = 3 * idle + 512 / medians[_MIXED]["ours"]
    return at_most("short query during a bulk load, s", busy, round(bar, 3))


def _spread(medians: dict[str, dict[str, float]]) -> float | None:
    find: Callable[[str], float | None] = lambda size: medians.get(  # noqa: E731 - one use
        f"{size}, tokens/s", {}
    ).get("ours")
    rates = [rate for size in _SIZES if (rate := find(size)) is not None]
    return (max(rates) / min(rates) - 1) * 100 if len(rates) == len(_SIZES) else None
