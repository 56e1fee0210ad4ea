"""docs/performance.md and its plot, written from a report and from nothing else."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tests.bench.measure import MIXED, PEAK
from tests.bench.tables import spread, table

_BAR, _GAP, _LABELS, _WIDTH, _MARGIN = 16, 14, 250, 360, 90  # pixels
_IDLE = 0.5  # load average of a machine that does nothing else
_SERVERS = ("stock", "fastembed", "llama.cpp", "ours", "ours int8", "gate")
_COLOURS = ("#9aa0a6", "#1a73e8", "#f29900", "#188038", "#a142f4", "#d93025")

_HEAD = """\
# Performance

Written by `make bench ARGS=--write-docs`; change nothing here by hand. Every number is of one run
on one machine, with the servers taking turns load by load, so ratios mean more than figures.

* Machine: {cpu}, {cores} cores, {platform}{busy}.
* {holding} of {rows} promises hold in this run{failing}.
* Medians of {rounds} rounds (of fewer for the largest loads), in brackets the least and the
  greatest.
* bge-small's exact shape has random weights and the real tokenizer; MiniLM has its own weights.

| server | what it is |
| --- | --- |
| `stock` | Infinity 0.0.77 as pip installs it, PyTorch, its dependencies pinned so that it starts |
| `fastembed` | ONNX Runtime on the same weights in float32, behind a small HTTP server |
| `llama.cpp` | its own server, compiled for this CPU, on the same weights in float32 |
| `ours` | the appliance's server, without nginx |
| `ours int8` | the same with `DTYPE=int8`; bfloat16 on a CPU with AMX |
| `gate` | the server of `ours` through TLS, nginx and key as an instance has them |
{missing}
![Speed as a multiple of stock Infinity's, a bar a server and load](performance.svg)

## What was promised

"""


def write(folder: Path, report: dict[str, Any]) -> None:
    """Write ``performance.md`` and ``performance.svg``."""
    runs = {load: values for load, values in report["runs"].items() if any(values.values())}
    servers = [name for name in _SERVERS if any(name in values for values in runs.values())]
    compared = {load: values for load, values in runs.items() if set(values) <= set(servers)}
    page = _head(report) + table(
        ["line", "measured", "bar", "holds"],
        [[row["name"], _value(row["measured"]), row["bar"], _holds(row)] for row in report["rows"]],
    )
    page += "\n## What was measured\n\n" + table(
        ["load", *servers], [[load, *_cells(compared[load], servers)] for load in compared]
    )
    peaks = [peak / 1e9 for load in runs if load.endswith(PEAK) for peak in runs[load]["machine"]]
    if peaks:
        page += f"\nMatrix-product peak of the machine (float32, GFLOP/s): {spread(peaks)}.\n"
    (folder / "performance.md").write_text(page)
    (folder / "performance.svg").write_text(_plot(compared, servers))


def _head(report: dict[str, Any]) -> str:
    machine, rows, runs = report["machine"], report["rows"], report["runs"]
    failing = [_failing(row) for row in rows if not row["holds"]]
    absent = [f"`{name}` was not measured: {why}" for name, why in report["missing"].items()]
    return _HEAD.format(
        cpu=machine["cpu"],
        cores=machine["cores"],
        platform=machine["platform"],
        busy=_busy(machine["load_before"]),
        holding=len(rows) - len(failing),
        rows=len(rows),
        failing=f"; these do not: {'; '.join(failing)}" if failing else "",
        rounds=len(next(iter(runs.get(MIXED, {"": []}).values()))),
        missing="".join(f"\n{line}\n" for line in absent),
    )


def _failing(row: dict[str, Any]) -> str:
    return str(row["name"]) + (" (not measured)" if row["measured"] is None else "")


def _busy(load: float) -> str:
    return f", busy with other work as well (load average {load:.1f})" if load > _IDLE else ""


def _cells(values: dict[str, list[float]], servers: list[str]) -> list[str]:
    return [spread(values.get(server, [])) for server in servers]


def _value(measured: float | None) -> str:
    return "not measured" if measured is None else f"{measured:.3g}"


def _holds(row: dict[str, Any]) -> str:
    return "yes" if row["holds"] else "no"


def _plot(runs: dict[str, dict[str, list[float]]], servers: list[str]) -> str:
    """Bars of speed against stock: longer is faster, whatever the load's unit."""
    others = [name for name in servers if name != "stock"]
    groups = {load: _speeds(load, values, others) for load, values in runs.items()}
    groups = {load: speeds for load, speeds in groups.items() if speeds}
    scale = _WIDTH / max([1.0, *(s for speeds in groups.values() for s in speeds.values())])
    parts: list[str] = []
    y = _GAP
    for load, speeds in groups.items():
        parts.append(_text(_LABELS - 8, y + _BAR - 4, load.partition(",")[0], anchor="end"))
        for name, speed in speeds.items():
            colour = _COLOURS[servers.index(name) % len(_COLOURS)]
            width = round(speed * scale)
            parts.append(
                f'<rect x="{_LABELS}" y="{y}" width="{width}" height="{_BAR - 2}" fill="{colour}"/>'
            )
            parts.append(_text(_LABELS + width + 6, y + _BAR - 4, f"{speed:.2f}x {name}"))
            y += _BAR
        y += _GAP
    line = _LABELS + round(scale)
    parts.append(f'<path d="M{line} 0V{y}" stroke="#202124" stroke-dasharray="3 3"/>')
    parts.append(_text(line, y + _BAR, "stock Infinity", anchor="middle"))
    size = f'width="{_LABELS + _WIDTH + _MARGIN}" height="{y + 2 * _BAR}"'
    style = 'font-family="sans-serif" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _speeds(load: str, values: dict[str, list[float]], others: list[str]) -> dict[str, float]:
    """Each server's speed as a multiple of stock's; times count inversely."""
    if not values.get("stock"):
        return {}
    stock = statistics.median(values["stock"])
    ratios = {name: statistics.median(values[name]) / stock for name in others if values.get(name)}
    return {name: 1 / ratio for name, ratio in ratios.items()} if load.endswith(", s") else ratios


def _text(x: int, y: int, words: str, *, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'
