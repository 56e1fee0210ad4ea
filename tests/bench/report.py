"""``build/bench.json``: the rows, every raw figure, and on what machine."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.measure import Runs
from tests.bench.rows import Row


@dataclass(frozen=True)
class Findings:
    """What a run found.

    Attributes:
        rows: promises against figures.
        runs: every raw figure.
        load: the machine's load average before anything ran: others' work.
        missing: server -> why it could not be measured.
    """

    rows: list[Row]
    runs: Runs
    load: float
    missing: dict[str, str] = field(default_factory=dict)


def write(path: Path, found: Findings) -> dict[str, Any]:
    """Print the rows, write all figures, and return them."""
    for row in found.rows:
        value = "not measured" if row.measured is None else f"{row.measured:.3g}"
        print(f"{'ok ' if row.holds else 'NO '} {row.name}: {value} ({row.bar})")
    path.parent.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {
        "passed": all(row.holds for row in found.rows),
        "rows": [asdict(row) for row in found.rows],
        "runs": found.runs,
        "missing": found.missing,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "platform": platform.platform(),
            "cpu": cpu(),
            "load_before": found.load,
        },
    }
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {path}")
    return report


def cpu() -> str:
    """What the processor calls itself."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")
