"""Response bodies, as chunks of JSON: OpenAI's shapes with the fields Infinity adds."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from appliance.serving.models import Served

# Vectors written between two looks at other requests: 1 ms.
_PART = 32


@dataclass(frozen=True)
class Answer:
    """What goes back: status, headers besides length, and the body in pieces."""

    status: int
    chunks: Sequence[bytes]
    headers: dict[str, str] = field(default_factory=dict)
    media: str = "application/json"


def json(value: Any, status: int = 200) -> Answer:  # noqa: ANN401 - anything orjson takes
    return Answer(status, [orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)])


def _tail(model: str, tokens: int) -> dict[str, Any]:
    return {
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "id": f"infinity-{uuid.uuid4()}",
        "created": int(time.time()),
    }


def resized(vector: Any, dimensions: int | None) -> Any:  # noqa: ANN401 - float32, (size) or (tokens, size)
    """The first ``dimensions`` numbers, of length 1 again; None leaves the vector as it is."""
    if dimensions is None or dimensions == vector.shape[-1]:
        return vector
    cut = vector[..., :dimensions]
    return cut / np.linalg.norm(cut, axis=-1, keepdims=True)


def _number(vector: Any) -> bytes:  # noqa: ANN401 - float32
    # As doubles, so that the digits read back are the float32 that base64 carries, exactly.
    return orjson.dumps(vector.astype(np.float64), option=orjson.OPT_SERIALIZE_NUMPY)


def _base64(vector: Any) -> bytes:  # noqa: ANN401 - float32
    return b'"' + base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").data) + b'"'


async def embeddings(model: str, vectors: Sequence[Any], encoding: str, tokens: int) -> list[bytes]:
    """``/embeddings``: one object a vector, in order.

    Args:
        model: the served name.
        vectors: float32, (size) each.
        encoding: ``float`` or ``base64`` (little-endian float32).
        tokens: what the model read.
    """
    write = _base64 if encoding == "base64" else _number
    chunks = [b'{"object":"list","data":[']
    for start in range(0, len(vectors), _PART):
        if start:
            await asyncio.sleep(0)
        part = (
            b'{"object":"embedding","embedding":%b,"index":%d}' % (write(vector), index)
            for index, vector in enumerate(vectors[start : start + _PART], start)
        )
        chunks.append((b"," if start else b"") + b",".join(part))
    chunks.append(b"]," + orjson.dumps(_tail(model, tokens))[1:])
    return chunks


def rerank(
    model: str, ranked: Sequence[tuple[int, float]], texts: Sequence[str] | None, tokens: int
) -> dict[str, Any]:
    """``/rerank``: (index, score) pairs, best first; ``texts`` None leaves the documents out."""
    results = [
        {
            "relevance_score": score,
            "index": index,
            "document": None if texts is None else texts[index],
        }
        for index, score in ranked
    ]
    return {"object": "rerank", "results": results, **_tail(model, tokens)}


def classify(model: str, labels: Sequence[Any], tokens: int) -> dict[str, Any]:
    """``/classify``: for each text its labels with scores, best first."""
    data = [[{"score": x["score"], "label": x["label"]} for x in one] for one in labels]
    return {"object": "classify", "data": data, **_tail(model, tokens)}


def model(served: Served, queue: dict[str, Any]) -> dict[str, Any]:
    """An entry of ``/models``."""
    return {
        "id": served.name,
        "stats": queue,
        "object": "model",
        "owned_by": "infinity",
        "created": served.created,
        "backend": "torch",
        "capabilities": list(served.capabilities),
    }
