"""What a core computes here, and so what an instance of EC2 does and costs.

The server on one core and on all of them, in turn (A B A B), gives the scaling law; it is written
to ``build/sizing.json`` and, where asked for, to ``docs/sizing.md``.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench import models, report, servers
from tests.bench.law import Law
from tests.bench.measure import CLIENTS, MIXED, QUERY, Loads, Runs
from tests.bench.sizing_page import page

OUT = Path("build/sizing.json")
LOADS = (MIXED, CLIENTS, QUERY)


def size(home: Path, rounds: int, *, write_docs: bool) -> None:
    """Measure, say what the law is, and write."""
    runs, resident = measure(home, models.BGE, rounds)
    found = {
        "cpu": report.cpu(),
        "model": models.BGE.id,
        "rounds": rounds,
        "resident_mb": resident,
        "runs": runs,
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    rates = {int(count): statistics.median(taken) for count, taken in runs[MIXED].items()}
    law = Law.fit(rates)
    print(f"{law.one_core:.0f} tokens/s on one core; {law.parallel:.1%} of the work is parallel")
    if write_docs:
        Path("docs/sizing.md").write_text(page(found, law))


def measure(home: Path, model: models.Model, rounds: int) -> tuple[Runs, float]:
    """Load -> number of cores -> what each round measured; and the most memory held, MB."""
    cores = sorted(os.sched_getaffinity(0))
    counts = sorted({1, len(cores)})
    known = Loads(models.snapshot(home, model) / "tokenizer.json", model.window).main()
    loads = {load.name: load.run for load in known if load.name in LOADS}
    if counts == [1]:
        raise SystemExit("One core says nothing about more of them: run this where there are two.")
    runs: Runs = {load: {str(count): [] for count in counts} for load in LOADS}
    with ExitStack() as stack:
        started = {}
        for count in counts:
            with only(cores[:count]):
                started[count] = stack.enter_context(servers.ours(home, model))
        clients = {count: server.client() for count, server in started.items()}
        for load in LOADS:
            for client in clients.values():
                loads[load](client)  # first calls fill caches
            for _ in range(rounds):
                for count, client in clients.items():
                    runs[load][str(count)].append(loads[load](client))
            print(f"  {load}: {runs[load]}", flush=True)
        resident = max(server.resident() for server in started.values())
    return runs, resident


@contextmanager
def only(cores: list[int]) -> Iterator[None]:
    """What is started meanwhile runs on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
