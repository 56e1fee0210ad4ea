"""The loads, measured on several servers in turn."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench import texts
from tests.bench.client import Client, interrupted_query_time, query_rate, query_time
from tests.bench.servers import Server

# It describes no types to a strict checker.
tokenizers: Any = importlib.import_module("tokenizers")

Runs = dict[str, dict[str, list[float]]]  # load -> server -> what each round measured


class Loads:
    """What is sent, and how many tokens that is."""

    def __init__(self, tokenizer: Path) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(512)

    def tokens(self, items: Sequence[str]) -> int:
        return sum(len(encoding.ids) for encoding in self._tokenizer.encode_batch(list(items)))

    def _rate(self, items: list[str]) -> Callable[[Client], float]:
        tokens = self.tokens(items)
        return lambda client: tokens / client.embed(items)

    def all(self, *, quick: bool) -> dict[str, Callable[[Client], float]]:
        """Load -> what measures it; names end in their unit."""
        queries = texts.short(64)
        loads = {
            "one short query, s": lambda client: query_time(client, queries[:24]),
            "16 clients of short queries, 1/s": lambda client: query_rate(client, queries * 3, 16),
            "32 mixed passages, tokens/s": self._rate(texts.mixed(32)),
            "one text of 512 tokens, tokens/s": self._rate(texts.longest()),
        }
        if quick:
            return loads
        return loads | {
            "256 mixed passages, tokens/s": self._rate(texts.mixed(256, seed=1)),
            "2,048 short texts, tokens/s": self._rate(texts.short(2048)),
            "10 inputs, tokens/s": self._rate(texts.short(10)),
            "100 inputs, tokens/s": self._rate(texts.short(100)),
            "1,000 inputs, tokens/s": self._rate(texts.short(1000)),
            "short query during a bulk load, s": lambda client: interrupted_query_time(
                client, texts.mixed(256, seed=2), queries[0], 20
            ),
        }


def measure(
    servers: Sequence[Server], loads: dict[str, Callable[[Client], float]], rounds: int
) -> Runs:
    """Every load on every server in turn, so that noise meets all alike (A B A B)."""
    runs: Runs = {load: {server.name: [] for server in servers} for load in loads}
    clients = {server.name: server.client() for server in servers}
    for load, run in loads.items():
        for client in clients.values():
            run(client)  # first calls compile kernels and fill caches, in every server
        for _ in range(rounds):
            for name, client in clients.items():
                runs[load][name].append(run(client))
        print(f"  {load}: {medians(runs)[load]}", flush=True)
    return runs


def medians(runs: Runs) -> dict[str, dict[str, float]]:
    return {
        load: {name: round(statistics.median(v), 5) for name, v in by_server.items() if v}
        for load, by_server in runs.items()
    }
