"""`python -m tests.bench`: ours against others in one run, A B A B, as ratios.

Exits 0 when it measured, whatever it measured; ``build/bench.json`` says what held.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError
from tests.bench import docs, gate, layer, models, servers, texts
from tests.bench.measure import Loads, Runs, measure, medians
from tests.bench.rows import Row, rows

_GATE = "short query through the gate, s"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path("build/bench"), help="models and logs")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--model", choices=sorted(models.MODELS), default="bge")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="the four main loads, no soak")
    parser.add_argument("--soak", type=int, default=50_000, help="requests of the memory test")
    parser.add_argument("--layer", action="store_true", help="only what the API layer costs")
    parser.add_argument("--write-docs", action="store_true", help="docs/performance.md as well")
    parser.add_argument("--dtype", action="append", default=[], help="also ours in this format")
    return parser.parse_args()


def soak(server: servers.Server, requests: int) -> float:
    """Growth of the server's memory over so many requests of all sizes, as a fraction."""
    client, items = server.client(), texts.mixed(64, seed=9) + texts.short(192, seed=9)

    def send(count: int) -> None:
        for number in range(count):
            client.embed([items[number % len(items)]])

    send(requests // 10)
    before = server.resident()
    send(requests - requests // 10)
    return server.resident() / before - 1


def main() -> int:
    options = arguments()
    home = options.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    models.prepare(home)
    model = models.MODELS[options.model]
    peak = float(_python("-m", "tests.bench.peak"))
    print(f"matrix-product peak: {peak / 1e9:.0f} GFLOP/s")
    if options.layer:
        found, runs = layer.measure(home, model, options.rounds)
        write(options.out, found, runs, peak=peak, model=model.id)
        return 0
    with ExitStack() as stack:
        snapshot = models.snapshot(home, model)
        running = [stack.enter_context(servers.stock(home, model))]
        try:
            running.append(stack.enter_context(servers.fastembed(home, model, snapshot)))
        except (ApplianceError, OSError, subprocess.SubprocessError) as error:
            # Its packages are no part of the locks: where they cannot be had, its rows are
            # "not measured", which holds nothing.
            print(f"fastembed is not measured: {error}")
        running += [
            stack.enter_context(servers.ours(home, model, dtype))
            for dtype in ("float32", *options.dtype)
        ]
        for server in running:
            print(f"{server.name}: first embedding after {server.started:.1f} s")
        loads = Loads(snapshot / "tokenizer.json")
        runs = measure(running, loads.all(quick=options.quick), options.rounds)
        ours = next(server for server in running if server.name == "ours")
        resident = ours.resident()
        runs[_GATE] = gate.added(home, ours, texts.short(100, seed=3))
        seconds = {name: statistics.median(taken) for name, taken in runs[_GATE].items()}
        growth = None if options.quick else soak(ours, options.soak)
        found = rows(
            medians(runs),
            flop_per_token=model.flop_per_token,
            peak=peak,
            starts={server.name: server.started for server in running},
            resident=max(resident, ours.resident()),
            growth=growth,
            gate=seconds["gate"] - seconds["ours"],
        )
    report = write(options.out, found, runs, peak=peak, model=model.id)
    if options.write_docs:
        docs.write(Path("docs"), report)
    return 0


def write(path: Path, found: list[Row], runs: Runs, *, peak: float, model: str) -> dict[str, Any]:
    """Print the rows, write all figures, and return them."""
    for row in found:
        value = "not measured" if row.measured is None else f"{row.measured:.3g}"
        print(f"{'ok ' if row.holds else 'NO '} {row.name}: {value} ({row.bar})")
    path.parent.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {
        "passed": all(row.holds for row in found),
        "rows": [asdict(row) for row in found],
        "runs": runs,
        "model": model,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "platform": platform.platform(),
            "cpu": _cpu(),
            "load": os.getloadavg()[0],
            "matrix_product_peak": peak,
        },
    }
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"written to {path}")
    return report


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((x.partition(":")[2].strip() for x in lines if x.startswith("model name")), "")


def _python(*argv: str) -> str:
    return subprocess.run(
        [sys.executable, *argv], check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())
