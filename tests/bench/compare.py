"""The comparison: both models, every server, every load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from appliance.errors import ApplianceError
from tests.bench import gate, models, rivals, servers, soak, texts
from tests.bench.measure import Loads, Runs, agreement, measure
from tests.bench.models import BGE, MINILM, Model
from tests.bench.report import Findings
from tests.bench.rows import GATE, MEMORY, SOAK, START, int8, rows
from tests.bench.servers import Server

_STARTS = 2  # of each server, besides the one that is measured


def compare(home: Path, rounds: int, *, quick: bool, requests: int) -> Findings:
    """Measure all there is to measure.

    Args:
        home: the folder of models and logs.
        rounds: of each load.
        quick: the main loads alone.
        requests: of the memory test.

    Raises:
        ApplianceError: Infinity or ours does not serve; others are left out with a reason.
    """
    missing: dict[str, str] = {}
    load = os.getloadavg()[0]
    shape = _with_shape(home, rounds, missing, quick=quick, requests=requests)
    real = _with_real_weights(home, rounds, missing)
    named = {f"MiniLM: {load}": values for load, values in real.items()}
    return Findings(
        [*rows(shape, BGE.flop_per_token), *int8(real)], {**shape, **named}, load, missing
    )


def _with_shape(
    home: Path, rounds: int, missing: dict[str, str], *, quick: bool, requests: int
) -> Runs:
    """bge-small's shape: everything."""
    loads = Loads(models.snapshot(home, BGE) / "tokenizer.json", BGE.window)
    with everyone(home, BGE, missing) as running:
        runs = agreement(running, loads)
        ours = next(server for server in running if server.name == "ours")
        ours.forget_most()
        runs |= measure(running, [*loads.main(), *([] if quick else loads.more())], rounds)
        runs[MEMORY] = {"ours": [ours.most_resident()]}
        both = [server for server in running if server.name in ("ours", "gate")]
        if len(both) > 1:
            runs[GATE] = gate.added(both, texts.short(200, seed=3))
        if not quick:
            runs[SOAK] = {"ours": soak.soak(ours, requests)}
        runs[START] = {s.name: [s.started] for s in running if s.name != "gate"}
    for _ in range(0 if quick else _STARTS):
        for make in (servers.stock, servers.ours):
            with make(home, BGE) as server:
                runs[START][server.name].append(server.started)
    return runs


def _with_real_weights(home: Path, rounds: int, missing: dict[str, str]) -> Runs:
    """MiniLM: the main loads, and what eight bits cost in accuracy."""
    loads = Loads(models.snapshot(home, MINILM) / "tokenizer.json", MINILM.window)
    with everyone(home, MINILM, missing) as running:
        return agreement(running, loads) | measure(running, loads.main(), rounds)


@contextmanager
def everyone(home: Path, model: Model, missing: dict[str, str]) -> Iterator[list[Server]]:
    """All servers for a model; those that cannot be had go into ``missing`` with the reason."""
    snapshot = models.snapshot(home, model)
    with ExitStack() as stack:
        running: list[Server] = [stack.enter_context(servers.stock(home, model))]

        def add(name: str, server: AbstractContextManager[Server]) -> None:
            try:
                running.append(stack.enter_context(server))
            except (ApplianceError, OSError) as error:
                missing[name] = str(error)
                print(f"{name} is not measured: {error}")

        add("fastembed", rivals.fastembed(home, model, snapshot))
        add("llama.cpp", rivals.llama(home, model, snapshot))
        ours = stack.enter_context(servers.ours(home, model))
        running.append(ours)
        running.append(stack.enter_context(servers.ours(home, model, "int8")))
        add("gate", gate.gate(home, ours, model))
        for server in running:
            print(f"{model.id}, {server.name}: first embedding after {server.started:.1f} s")
        yield running
