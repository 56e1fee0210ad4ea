"""The benchmark's report: what was missed or not measured is said, and holds nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.bench import docs, measure, report, soak
from tests.bench.report import Findings
from tests.bench.rows import GATE, MEMORY, SOAK, START, Row, rows

FLOP = 4e7
# A short run in which ours is twice as fast as stock at everything, which is not enough.
SHORT: measure.Runs = {
    measure.QUERY: {"stock": [0.02, 0.04, 0.03], "ours": [0.01, 0.02, 0.015]},
    measure.CLIENTS: {"stock": [50.0], "ours": [100.0]},
    measure.MIXED: {"stock": [1000.0, 1000.0], "ours": [2000.0, 2000.0]},
    measure.PEAK: {"machine": [1e11, 2e11]},
    measure.AGREEMENT: {"stock": [1.0], "ours": [0.999999]},
}
REST: measure.Runs = {
    measure.MANY_MIXED: {"stock": [1000.0], "ours": [3000.0]},
    measure.BUSY: {"ours": [0.1]},
    **{size: {"ours": [2000.0]} for size in measure.SIZES},
    GATE: {"ours": [0.010], "gate": [0.011]},
    START: {"stock": [20.0], "ours": [5.0]},
    MEMORY: {"ours": [600.0]},
    SOAK: {"ours": [500.0] * 20},
}


def test_servers_take_turns_and_so_do_loads_that_are_compared() -> None:
    calls: list[str] = []

    def load(name: str, turns: str = "") -> measure.Load:
        def run(client: Any) -> float:  # noqa: ANN401 - stands for a client
            calls.append(f"{name}{client}")
            return float(len(calls))

        return measure.Load(name, run, turns=turns)

    servers: Any = [SimpleNamespace(name=name, client=lambda n=name: n) for name in "xy"]
    found = measure.measure(servers, [load("a"), load("b", "size"), load("c", "size")], 2)
    assert " ".join(calls) == "ax ay ax ay ax ay bx by cx cy bx by cx cy bx by cx cy"
    # The first call of each is not counted.
    assert found["a"] == {"x": [3.0, 5.0], "y": [4.0, 6.0]}
    assert found["c"] == {"x": [13.0, 17.0], "y": [14.0, 18.0]}


def test_what_a_short_run_leaves_out_does_not_hold() -> None:
    found = rows(SHORT, FLOP)
    assert {row.name for row in found} == {row.name for row in rows({**SHORT, **REST}, FLOP)}
    absent = [row for row in found if row.measured is None]
    assert len(absent) > 5
    assert not any(row.holds for row in absent)


def test_twice_as_fast_does_not_pass_for_more() -> None:
    by_name = {row.name: row for row in rows({**SHORT, **REST}, FLOP)}
    missed = by_name["32 mixed passages: tokens/s against stock Infinity"]
    assert missed.measured == pytest.approx(2.0)
    assert not missed.holds
    assert not by_name["one short query: time against stock Infinity"].holds
    assert by_name["256 mixed passages: tokens/s against stock Infinity"].holds
    # 2,000 tokens a second are 80 % of the first round's peak, 40 % of the second's.
    assert by_name["32 mixed passages: share of the matrix-product peak"].measured == (
        pytest.approx(0.6)
    )


@pytest.mark.parametrize("end", [540.0, 460.0])
def test_memory_that_moved_either_way_is_not_flat(end: float) -> None:
    held = [400.0, 500.0, *[500.0] * 17, end]
    assert abs(soak.growth(held)) == pytest.approx(0.08)
    [row] = [r for r in rows({**SHORT, SOAK: {"ours": held}}, FLOP) if "soak" in r.name]
    assert not row.holds


def test_the_report_passes_only_if_every_row_holds(tmp_path: Path) -> None:
    good, bad = Row("good", 1.0, ">= 1", holds=True), Row("bad", None, ">= 1", holds=False)
    assert report.write(tmp_path / "a.json", Findings([good], {}, 0.0))["passed"]
    assert not report.write(tmp_path / "b.json", Findings([good, bad], {}, 0.0))["passed"]


def test_the_page_names_every_promise_that_was_missed(tmp_path: Path) -> None:
    runs = {**SHORT, **REST}
    missing = {"llama.cpp": "it does not compile"}
    written = report.write(tmp_path / "bench.json", Findings(rows(runs, FLOP), runs, 9.0, missing))
    docs.write(tmp_path, written)
    page = (tmp_path / "performance.md").read_text()
    lines = page.partition("## What was measured")[0].splitlines()
    for row in written["rows"]:
        [line] = [line for line in lines if line.startswith(f"| {row['name']} |")]
        assert line.endswith("| yes |" if row["holds"] else "| no |")
    said = next(line for line in lines if "these do not" in line)
    assert all((row["name"] in said) == (not row["holds"]) for row in written["rows"])
    assert "it does not compile" in page
    assert "busy with other work" in page
    ET.parse(tmp_path / "performance.svg")  # noqa: S314 - our own file
