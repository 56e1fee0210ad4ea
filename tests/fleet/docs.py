"""The rehearsal's figures in docs/fleet.md."""

from __future__ import annotations

from collections.abc import Sequence

from machine.names import CHECKOUT
from tests.bench.rows import Row

PAGE = CHECKOUT / "docs/fleet.md"
BEGIN, END = "<!-- written by make fleet -->\n", "<!-- until here -->\n"


def write(rows: Sequence[Row]) -> None:
    PAGE.write_text(with_figures(PAGE.read_text(), rows))


def with_figures(page: str, rows: Sequence[Row]) -> str:
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError("the page has no place for the figures")
    table = ["| during the rehearsal | measured | bar |\n", "|---|---|---|\n"]
    table += [f"| {row.name} | {row.measured:.4g} | {row.bar} |\n" for row in rows]
    return before + begin + "".join(table) + end + after
