"""Which form of the products, and how many tokens at a time, this CPU is fastest with.

A short measurement on three real layers, done once for a kind of CPU and remembered.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch

from appliance.errors import ApplianceError
from appliance.files import write_atomic
from appliance.serving.encoder_forward import Encoder
from appliance.serving.encoder_half import fits
from appliance.serving.encoder_weights import EncoderWeights

# A query and a chunk of passages: the two sizes whose fastest form differs between CPUs.
_QUERY, _CHUNK = 16, 512
# More tokens at a time amortise reading the weights, but a query that arrives during a chunk
# waits for its end: the larger chunk has to be this much faster for each token.
_LARGER, _WORTH = 1024, 0.93
# Up to so many tokens half-precision weights are tried, each with a few sizes on the way there:
# how well a size suits a kernel differs from one to the next (FBGEMM takes 14 rows at a time).
_FEW = {14: (6, 10, 13), 28: (17, 22, 27), 56: (35, 44, 53)}
# Three layers of bge-small are 21 MB: like all twelve, they do not stay in a core's cache.
_LAYERS = 3
_REPEATS = 7
# Half precision wins by little at the larger sizes: over more rounds noise decides less.
_CLOSE = 15
# Where one query takes so many seconds (an emulated CPU), the measurement would take minutes, and
# the machine has other worries than the last tenth of its speed.
_SLOW = 0.1

_Name = TypeVar("_Name")


@dataclass(frozen=True)
class Choice:
    """What was found fastest.

    Attributes:
        kernel: a name in ``encoder_kernels.KERNELS``.
        chunk: tokens that go through all layers together.
        half: tokens up to which half-precision weights serve; 0 for never.
    """

    kernel: str
    chunk: int
    half: int = 0


DEFAULT = Choice("packed", _CHUNK)


def choose(weights: EncoderWeights, cache: Path | None) -> Choice:
    """The remembered choice for this CPU and model shape, or a measured one.

    Args:
        weights: of the model to be served.
        cache: the JSON file that remembers; None measures every time. A file that cannot be
            read or written costs the measurement again, nothing else.
    """
    key = "; ".join(f"{name} {value}" for name, value in _situation(weights).items())
    known = _load(cache)
    if key in known:
        return known[key]
    choice = measure(weights)
    if cache is not None:
        entries = {name: asdict(value) for name, value in {**known, key: choice}.items()}
        try:
            write_atomic(cache, json.dumps(entries, indent=1), 0o644)
        except ApplianceError:
            return choice
    return choice


def cache_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where the choice is remembered: in the server's own state folder, if it has one."""
    home = environ.get("INFINITY_HOME") or environ.get("HF_HOME")
    return Path(home) / "encoder-tuning.json" if home and Path(home).is_dir() else None


def measure(weights: EncoderWeights) -> Choice:
    """Time the candidates, each against the others in turn, so that noise meets all alike."""
    # One word is enough: each candidate would hold a copy of the table, 47 MB of it.
    few = replace(weights, layers=weights.layers[:_LAYERS], word=weights.word[:1])
    encoders = {
        kernel: Encoder(few, kernel, first_token_only=False) for kernel in ("packed", "plain")
    }
    default = _run(encoders[DEFAULT.kernel], _QUERY)
    if min(_race({0: default}, repeats=3).values()) > _SLOW:
        return DEFAULT
    costs = dict.fromkeys(encoders, 0.0)
    for tokens in (_QUERY, _CHUNK):
        times = _race({kernel: _run(encoder, tokens) for kernel, encoder in encoders.items()})
        best = min(times.values())
        for kernel in costs:
            costs[kernel] += times[kernel] / best
    kernel = min(costs, key=costs.__getitem__)
    sizes = _race({size: _run(encoders[kernel], size) for size in (_CHUNK, _LARGER)})
    larger = sizes[_LARGER] / _LARGER < _WORTH * sizes[_CHUNK] / _CHUNK
    half = _half(few, kernel, encoders[kernel])
    return Choice(kernel, _LARGER if larger else _CHUNK, half)


def _half(few: EncoderWeights, kernel: str, full: Encoder) -> int:
    """The most tokens for which half-precision weights are no slower; 0 unless they pay at all.

    They take memory, so a query has to gain clearly; once they are there, any gain is welcome.
    """
    if not fits(few):
        return 0
    half = Encoder(few, kernel, first_token_only=False, half=max(_FEW))
    most = 0
    for limit, sizes in _FEW.items():
        times = _race({"half": _each(half, sizes), "full": _each(full, sizes)}, _CLOSE)
        if times["half"] > (1 if most else _WORTH) * times["full"]:
            break
        most = limit
    return most


def _run(encoder: Encoder, tokens: int) -> Callable[[], object]:
    length = min(tokens, 64)
    count = tokens // length
    ids = torch.zeros(count * length, dtype=torch.int64)
    positions = torch.arange(length).repeat(count)
    return lambda: encoder(ids, positions, None, [length] * count)


def _each(encoder: Encoder, sizes: Sequence[int]) -> Callable[[], object]:
    runs = [_run(encoder, tokens) for tokens in sizes]
    return lambda: [run() for run in runs]


def _race(
    candidates: dict[_Name, Callable[[], object]], repeats: int = _REPEATS
) -> dict[_Name, float]:
    """Each candidate's best time in seconds over a few rounds."""
    best = dict.fromkeys(candidates, float("inf"))
    with torch.inference_mode():
        for _ in range(repeats):
            for name, run in candidates.items():
                start = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def _situation(weights: EncoderWeights) -> dict[str, object]:
    """All that the fastest choice depends on."""
    layer = weights.layers[0]
    return {
        "cpu": _cpu_model(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "half": max(_FEW),  # what an older release remembered does not know of it
        "shape": "x".join(map(str, (weights.heads, *layer.up.weight.shape))),
    }


def _cpu_model(info: Path = Path("/proc/cpuinfo")) -> str:
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else "unknown"


def _load(cache: Path | None) -> dict[str, Choice]:
    if cache is None:
        return {}
    try:
        return {name: Choice(**entry) for name, entry in json.loads(cache.read_text()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
