"""How the pages that the benchmark writes show figures."""

from __future__ import annotations

import statistics


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown; a row has as many cells as the head."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def spread(taken: list[float]) -> str:
    """Median, least and greatest; nothing of nothing."""
    if not taken:
        return ""
    least, greatest = short(min(taken)), short(max(taken))
    return f"{short(statistics.median(taken))} ({least} to {greatest})"


def short(value: float) -> str:
    """Three digits that count, and no power of ten."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
