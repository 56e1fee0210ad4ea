"""What the API layer costs: ours against Infinity's own handler, over models that take no time.

The same client sends the same requests to both in turn. The share of a large request is the time
that ours takes over an instant model, to the time of the same request with the real one: it
counts HTTP, parsing, checks, tokens, queue and answer as the layer's, though any server has those.

    make bench ARGS=--layer
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bench import servers, texts
from tests.bench.client import Client
from tests.bench.measure import Runs, medians
from tests.bench.models import Model
from tests.bench.report import Findings
from tests.bench.rows import at_most
from tests.bench.servers import Server

_ONE, _MANY = "one text, s", "2,048 texts, s"
_HANDLER, _LAYER, _WHOLE = "handler", "layer", "ours"
_PAIRS = 300


def measure(home: Path, model: Model, rounds: int) -> Findings:
    """The rows on the layer, and every time that was taken."""
    busy = os.getloadavg()[0]
    with ExitStack() as stack:
        both = [stack.enter_context(instant(home, model, name)) for name in (_HANDLER, _LAYER)]
        whole = stack.enter_context(servers.ours(home, model))
        runs: Runs = {_ONE: {}, _MANY: {}}
        clients = {server.name: server.client() for server in (*both, whole)}
        few = {name: clients[name] for name in (_HANDLER, _LAYER)}
        for text in texts.short(_PAIRS):
            _take(runs[_ONE], few, [text])
        many = texts.short(2048)
        _take({}, clients, many)  # first calls fill caches
        for _ in range(rounds):
            _take(runs[_MANY], clients, many)
    found = medians(runs)
    for load, by_server in found.items():
        print(f"  {load}: {by_server}")
    added = found[_ONE][_LAYER] - found[_ONE][_HANDLER]
    share = found[_MANY][_LAYER] / found[_MANY][_WHOLE]
    rows = [
        at_most("API layer: ms over Infinity's own handler, one text", added * 1e3, 1),
        at_most("API layer: share of a request of 2,048 texts, %", share * 100, 5),
    ]
    return Findings(rows, runs, busy)


@contextmanager
def instant(home: Path, model: Model, name: str) -> Iterator[Server]:
    """One of the two servers over a model that takes no time."""
    port = servers.free_port()
    command = [sys.executable, "-m", "tests.bench.instant"]
    settings = {}
    if name == _LAYER:
        command.append("ours")
        settings = {"MODEL": model.id, "DTYPE": "float32", "INFINITY_PORT": str(port)}
    else:
        command += [
            "stock", "v2", "--model-id", model.id, "--engine", "torch", "--device", "cpu",
            "--no-bettertransformer", "--no-model-warmup", "--host", "127.0.0.1",
            "--port", str(port),
        ]  # fmt: skip
    with servers.running(
        name, command, home=home, port=port, model=model, settings=settings
    ) as server:
        yield server


def _take(times: dict[str, list[float]], clients: dict[str, Client], items: list[str]) -> None:
    for name, client in clients.items():
        times.setdefault(name, []).append(client.embed(items))
