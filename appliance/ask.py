"""Real requests to a model server on loopback: what its models answer, and whether two agree."""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from appliance.errors import ApplianceError

PATIENCE = 120.0  # seconds for one answer: a large model on a small instance
TEXTS = (
    "What is the capital of France?",
    "Paris is the capital of France.",
    "The mitochondrion is the powerhouse of the cell.",
)


@dataclass(frozen=True)
class Answered:
    """What one model said to one kind of request.

    ``figures`` are a vector for each text, one score for each pair, or one for each label.
    """

    model: str
    task: str
    figures: tuple[tuple[float, ...], ...]


def everything(port: int) -> list[Answered]:
    """One real request to every model for everything it can do.

    Raises:
        ApplianceError: an answer failed, or is not made of finite numbers.
    """
    models = _request(port, "GET", "/models")["data"]
    return [
        _try(port, str(model["id"]), str(task))
        for model in models
        for task in model["capabilities"]
    ]


def told(answers: Sequence[Answered]) -> list[str]:
    """A line a model: its name and what it can do."""
    tasks: dict[str, list[str]] = {}
    for answer in answers:
        tasks.setdefault(answer.model, []).append(answer.task)
    return [f"{model} ({', '.join(can)})" for model, can in tasks.items()]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Of two vectors of one length."""
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / (math.hypot(*a) * math.hypot(*b))


def _try(port: int, model: str, task: str) -> Answered:
    requests: dict[str, tuple[str, dict[str, Any]]] = {
        "embed": ("/embeddings", {"input": list(TEXTS)}),
        "rerank": ("/rerank", {"query": TEXTS[0], "documents": list(TEXTS[1:])}),
        "classify": ("/classify", {"input": list(TEXTS[:1])}),
    }
    path, body = requests[task]
    answer = _request(port, "POST", path, {"model": model, **body})
    try:
        figures = _figures(task, answer)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise _wrong(model, task, "an answer of another shape") from error
    if not all(math.isfinite(figure) for row in figures for figure in row):
        raise _wrong(model, task, "a number that is not finite")
    if task == "embed" and not all(math.hypot(*row) for row in figures):
        raise _wrong(model, task, "a vector of zeros")
    return Answered(model, task, figures)


def _figures(task: str, answer: Any) -> tuple[tuple[float, ...], ...]:  # noqa: ANN401 - JSON
    if task == "embed":
        rows = sorted(answer["data"], key=lambda row: int(row["index"]))
        return tuple(tuple(map(float, row["embedding"])) for row in rows)
    if task == "rerank":
        ranked = sorted(answer["results"], key=lambda row: int(row["index"]))
        return (tuple(float(row["relevance_score"]) for row in ranked),)
    labels = sorted(answer["data"][0], key=lambda row: str(row["label"]))
    return (tuple(float(row["score"]) for row in labels),)


def _request(port: int, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    door = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        data = None if body is None else json.dumps(body)
        door.request(method, path, data, {"Content-Type": "application/json"})
        answer = door.getresponse()
        raw = answer.read()
        if answer.status != http.client.OK:
            said = raw.decode("utf-8", "replace")[:300]
            raise ApplianceError(f"{path} answered {answer.status}: {said}")
        return json.loads(raw)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ApplianceError(
            f"The model server on port {port} gave no answer to {path}: {error}.",
            "See `systemctl status infinity.service`.",
        ) from error
    finally:
        door.close()


def _wrong(model: str, task: str, what: str) -> ApplianceError:
    return ApplianceError(f"{model} gave {what} to `{task}`.", "Choose another model or version.")
