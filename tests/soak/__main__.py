"""`python -m tests.soak`: a machine of its own under a mixed load for minutes, through the gate.

Exits 0 when it measured, whatever it measured; ``build/soak.json`` says what held.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError
from machine import names
from machine.instance import Machine
from machine.steps import current_commit
from tests.soak import reranker
from tests.soak.rows import kinds, rows
from tests.soak.run import Soak, soak

NAME = "soak"
LEAST = 2


def main() -> int:
    options = arguments()
    with subject() as machine:
        reranker.serve_too(machine)
        found = soak(machine, options.minutes * 60, options.share)
    told = report(found, options.minutes, options.share)
    show(told)
    write(told, options.out)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--share", type=float, default=0.9, help="of the capacity (default: 0.9)")
    parser.add_argument("--out", type=Path, default=Path("build/soak.json"))
    options = parser.parse_args()
    if options.minutes < LEAST:
        parser.error(f"the first minute is warm-up: soak for {LEAST} minutes or more")
    return options


@contextmanager
def subject() -> Iterator[Machine]:
    """A fresh machine that serves; gone in the end."""
    Machine(names.place(NAME)).down()  # what an interrupted soak left
    try:
        yield Machine.up(NAME)
    finally:
        Machine(names.place(NAME)).down()


def report(found: Soak, minutes: float, share: float) -> dict[str, Any]:
    """All figures, as build/soak.json has them."""
    judged = rows(found, minutes, share)
    return {
        "passed": all(row.holds for row in judged),
        "commit": current_commit(),
        "minutes": minutes,
        "load_average": os.getloadavg()[1],
        "rows": [asdict(row) for row in judged],
        "calls": kinds(found.load),
        "capacities": [round(rate, 2) for rate in found.capacities],
        "offered": [round(rate, 2) for rate in found.offered],
        "megabytes": [round(sample.megabytes, 1) for sample in found.memory],
        "failed": found.failed[:100],
    }


def show(told: dict[str, Any]) -> None:
    for kind, row in told["calls"].items():
        took = f"half within {row['median_s']:.3f} s, 99 % within {row['p99_s']:.3f} s"
        print(f"   {kind}: {row['calls']} calls, {took}")
    for row in told["rows"]:
        mark = "ok" if row["holds"] else "NO"
        print(f"{mark} {row['name']}: {row['measured']:.3g} ({row['bar']})")


def write(told: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ApplianceError as error:
        sys.exit(f"soak: {error}")
