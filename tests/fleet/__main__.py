"""`python -m tests.fleet`: a fleet on this computer, under load, through what fleets go through.

Exits 0 when it measured, whatever it measured; ``build/fleet.json`` says what held.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from appliance.errors import ApplianceError
from machine.names import CHECKOUT
from tests.bench.rows import Row
from tests.fleet import docs, steps
from tests.fleet.fleet import Fleet, fleet, steady


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--out", type=Path, default=CHECKOUT / "build/fleet.json")
    parser.add_argument("--write-docs", action="store_true", help="docs/fleet.md as well")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        found = rehearse(options.members)
    except ApplianceError as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 1
    write(options.out, found)
    if options.write_docs:
        docs.write(found)
    return 0


def rehearse(members: int) -> list[Row]:
    """Every step, in the order of a fleet's life."""
    under_load: tuple[Callable[[Fleet], list[Row]], ...] = (
        lambda made: steps.scale_out(made, members),
        steps.kill,
        steps.replace,
        lambda made: steps.rotate(made, by_timer=True),
        lambda made: steps.scale_in(made, 1),
    )
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder), "fleet") as made:
        with steady(made.load):
            for step in under_load:
                found += told(step, made)
        found += told(steps.nobody_healthy, made)
    return found


def told(step: Callable[[Fleet], list[Row]], fleet: Fleet) -> list[Row]:
    """The step's rows, printed, and under them what failed during it."""
    began = time.monotonic()
    rows = step(fleet)
    for row in rows:
        print(f"{'ok ' if row.holds else 'NO '} {row.name}: {row.measured:.4g} ({row.bar})")
    for attempt in fleet.load.since(began)[1]:
        if attempt.failure:
            print(f"      {attempt.began - began:.1f} s into it: {attempt.failure}")
    print(f"      {time.monotonic() - began:.0f} s", flush=True)
    return rows


def write(path: Path, found: list[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "passed": all(row.holds for row in found),
        "rows": [asdict(row) for row in found],
        "machine": platform.platform(),
    }
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    sys.exit(main())
