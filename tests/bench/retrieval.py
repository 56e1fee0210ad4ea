"""`python -m tests.bench.retrieval`: what a number format changes in what is found.

Real text that every server environment has: the summary line of each documented function of
SciPy is the query, what its documentation says after that line the passage to be found. With
MiniLM, whose weights are real; float32 is the stock model, not ours.
On a busy machine run it with OMP_WAIT_POLICY=passive.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from appliance.serving.encoder import accelerate
from appliance.serving.encoder_tuning import Choice
from machine.model import stand_in

_MODULES = ("cluster.hierarchy", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize")
_MORE = ("signal", "spatial", "sparse", "special", "stats")
_LONGEST, _SHORTEST, _COUNT = 300, 200, 150  # characters of a passage; pairs
_FORMATS = {
    "half": Choice("packed", 512, 64),
    "bfloat16": Choice("bfloat16", 512),
    "int8": Choice("int8", 512),
}


def pairs() -> list[tuple[str, str]]:
    """(summary, the rest) of functions' documentation, no summary twice."""
    found: dict[str, str] = {}
    for name in (*_MODULES, *_MORE):
        module = importlib.import_module(f"scipy.{name}")
        for member in sorted(getattr(module, "__all__", ())):
            documentation = inspect.getdoc(getattr(module, member, None)) or ""
            summary, _, rest = documentation.partition("\n\n")
            if len(rest) >= _SHORTEST and len(summary) < _SHORTEST:
                found.setdefault(" ".join(summary.split()), " ".join(rest.split())[:_LONGEST])
    return list(found.items())[:_COUNT]


def embed(model: Any, texts: Sequence[str]) -> Any:  # noqa: ANN401 - Infinity's model; float32 (texts, size)
    with torch.inference_mode():
        parts = [
            model.encode_post(model.encode_core(model.encode_pre(list(texts[i : i + 16]))))
            for i in range(0, len(texts), 16)
        ]
    return np.concatenate(parts)


def compare(model: Any, found: Sequence[tuple[str, str]]) -> dict[str, dict[str, float]]:  # noqa: ANN401
    """Quality of each format, and how near it is to the stock model."""
    queries, passages = [query for query, _ in found], [passage for _, passage in found]
    stock = embed(model, queries), embed(model, passages)
    report = {"stock": _quality(*stock)}
    for name, choice in _FORMATS.items():
        ours = copy.deepcopy(model)
        accelerate(ours, dtype="float32", choice=choice)
        vectors = embed(ours, queries), embed(ours, passages)
        cosines = np.concatenate([(a * b).sum(1) for a, b in zip(stock, vectors, strict=True)])
        report[name] = {
            **_quality(*vectors),
            "least cosine": float(cosines.min()),
            "mean cosine": float(cosines.mean()),
            "same top 10": _overlap(stock, vectors),
        }
    return report


def _quality(queries: Any, passages: Any) -> dict[str, float]:  # noqa: ANN401 - (texts, size)
    """Recall at 1 and 10, and the mean reciprocal rank."""
    scores = queries @ passages.T
    ranks = (scores > scores.diagonal()[:, None]).sum(1)
    return {
        "recall at 1": float((ranks < 1).mean()),
        "recall at 10": float((ranks < 10).mean()),
        "reciprocal rank": float((1 / (ranks + 1)).mean()),
    }


def _overlap(one: tuple[Any, Any], other: tuple[Any, Any]) -> float:
    """How many of the first ten are the same, on average, as a fraction."""
    tops = [np.argsort(-(q @ p.T), axis=1)[:, :10] for q, p in (one, other)]
    return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(*tops, strict=True)]))


def load(folder: Path) -> Any:  # noqa: ANN401 - Infinity's
    infinity: Any = importlib.import_module("infinity_emb")
    select: Any = importlib.import_module("infinity_emb.inference")
    arguments = infinity.EngineArgs(
        model_name_or_path=str(folder), engine="torch", device="cpu",
        bettertransformer=False, model_warmup=False, trust_remote_code=False,
    )  # fmt: skip
    [model], _, _ = select.select_model(arguments)
    return model


def main() -> int:
    found = pairs()
    print(json.dumps({"pairs": len(found), **compare(load(stand_in().files), found)}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
