"""The loads, measured on several servers in turn."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench import texts
from tests.bench.client import Client, interrupted_query_time, query_time, request_rate
from tests.bench.peak import matrix_product_peak
from tests.bench.servers import Server

# It describes no types to a strict checker.
tokenizers: Any = importlib.import_module("tokenizers")

Runs = dict[str, dict[str, list[float]]]  # load -> server -> what each round measured

QUERY = "one short query, s"
CLIENTS = "16 clients of short queries, 1/s"
MIXED = "32 mixed passages, tokens/s"
MANY_MIXED = "256 mixed passages, tokens/s"
BUSY = "short query during 2,048 passages, s"
SIZES = {f"{size:,} inputs, tokens/s": size for size in (10, 100, 1000, 2048)}
_AT_LEAST = 500  # texts a measurement of a size, in as many requests as that takes
PEAK = "matrix-product peak, FLOP/s"
AGREEMENT = "least cosine to stock"
_SOLO = "ours"  # whose server a load is for that compares ours with itself
_VARIANTS = ("ours int8", "gate")  # of ours; minutes of load would say no more of them


@dataclass(frozen=True)
class Load:
    """What is sent, and how it is measured.

    Attributes:
        name: ends in its unit.
        run: one measurement.
        heavy: takes so long that fewer rounds, no first one uncounted, and one server of ours
            have to do.
        alone: measured on our server only.
        peaks: the machine's matrix-product peak is taken after each of its rounds.
        turns: loads side by side with one such name take turns, as servers do; empty for none.
    """

    name: str
    run: Callable[[Client], float]
    heavy: bool = False
    alone: bool = False
    peaks: bool = False
    turns: str = ""


class Loads:
    """The loads for a model; no text of them is longer than its window, in tokens."""

    def __init__(self, tokenizer: Path, window: int) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(window)
        self._longest = f"one text of {window} tokens, tokens/s"

    def main(self) -> list[Load]:
        """What every server and model is asked."""
        queries = texts.short(64)
        return [
            Load(QUERY, lambda client: query_time(client, queries[:24])),
            Load(CLIENTS, lambda c: request_rate(c, [[query] for query in queries * 3], 16)),
            self._bulk(MIXED, texts.mixed(32), peaks=True),
            self._bulk(self._longest, texts.longest()),
        ]

    def more(self) -> list[Load]:
        """The rest: large ones, a mixed trace, and what ours is asked alone."""
        short, query, bulk = texts.short(2048), texts.short(1)[0], texts.mixed(2048, seed=2)
        return [
            self._trace("mixed trace of 8 clients, tokens/s", texts.trace(64)),
            self._bulk(MANY_MIXED, texts.mixed(256, seed=1), heavy=True),
            self._bulk("2,048 short texts, tokens/s", short, heavy=True),
            *(
                self._size(name, short[: max(size, _AT_LEAST)], size)
                for name, size in SIZES.items()
            ),
            Load(BUSY, lambda c: interrupted_query_time(c, bulk, query, 20), alone=True),
        ]

    def _bulk(
        self, name: str, items: list[str], *, heavy: bool = False, peaks: bool = False
    ) -> Load:
        fitting = self.fit(items)
        tokens = self._tokens(fitting)
        return Load(name, lambda client: tokens / client.embed(fitting), heavy, peaks=peaks)

    def _size(self, name: str, items: list[str], size: int) -> Load:
        requests = [items[start : start + size] for start in range(0, len(items), size)]
        tokens = self._tokens(items)
        return Load(
            name, lambda client: tokens / sum(map(client.embed, requests)), alone=True, turns="size"
        )

    def _trace(self, name: str, requests: list[list[str]]) -> Load:
        fitting = [self.fit(items) for items in requests]
        each = sum(map(self._tokens, fitting)) / len(fitting)
        return Load(name, lambda client: each * request_rate(client, fitting, 8), heavy=True)

    def _tokens(self, items: Sequence[str]) -> int:
        return sum(len(encoding.ids) for encoding in self._tokenizer.encode_batch(list(items)))

    def fit(self, items: Sequence[str]) -> list[str]:
        """The texts, cut where the model would cut them: not every server does."""
        found = self._tokenizer.encode_batch(list(items))
        return [item[: e.offsets[-2][1]] for item, e in zip(items, found, strict=True)]


def measure(servers: Sequence[Server], loads: Sequence[Load], rounds: int) -> Runs:
    """Every load on every server in turn, so that noise meets all alike (A B A B).

    Raises:
        OSError: ours did not answer one that all are asked. Another server that fails is left
            out of the load.
    """
    clients = {server.name: server.client() for server in servers}
    runs: Runs = {}
    for _, together in groupby(loads, key=lambda load: load.turns or load.name):
        found = _by_turns(list(together), clients, rounds)
        for name, values in medians(found).items():
            print(f"  {name}: {values}", flush=True)
        runs |= found
    return runs


def _by_turns(loads: Sequence[Load], clients: dict[str, Client], rounds: int) -> Runs:
    """Rounds of all of these loads, each on all of its servers."""
    turns = [(load, {n: c for n, c in clients.items() if _is_for(load, n)}) for load in loads]
    found: Runs = {load.name: {name: [] for name in asked} for load, asked in turns}
    for load, asked in turns:
        for name in [] if load.heavy else list(asked):
            _run(load, name, asked)  # first calls compile kernels and fill caches, in every server
    for _ in range(max(2, rounds // 2) if loads[0].heavy else rounds):
        for load, asked in turns:
            for name in list(asked):
                found[load.name][name] += _run(load, name, asked)
            if load.peaks:
                found.setdefault(PEAK, {"machine": []})["machine"].append(matrix_product_peak())
    left = {load.name: {name: found[load.name][name] for name in asked} for load, asked in turns}
    return found | left


def _is_for(load: Load, name: str) -> bool:
    return name == _SOLO if load.alone else not (load.heavy and name in _VARIANTS)


def _run(load: Load, name: str, asked: dict[str, Client]) -> list[float]:
    """One measurement of a server; none, and the server asked no more, where it fails."""
    try:
        return [load.run(asked[name])]
    except OSError as error:
        if name == _SOLO and not load.alone:
            raise
        print(f"  {load.name}: {name} is left out: {error}")
        del asked[name]
        return []


def agreement(servers: Sequence[Server], loads: Loads) -> Runs:
    """Least cosine of each server's vectors to those of the first, over mixed passages."""
    items = loads.fit(texts.mixed(8, seed=5) + texts.short(8, seed=5))
    found = {server.name: np.array(server.client().vectors(items)) for server in servers}
    first = next(iter(found.values()))
    return {AGREEMENT: {name: [_least_cosine(first, other)] for name, other in found.items()}}


def _least_cosine(one: Any, other: Any) -> float:  # noqa: ANN401 - (texts, size) each
    sizes = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(1) / sizes).min())


def medians(runs: Runs) -> dict[str, dict[str, float]]:
    return {
        load: {name: round(statistics.median(v), 5) for name, v in by_server.items() if v}
        for load, by_server in runs.items()
    }
