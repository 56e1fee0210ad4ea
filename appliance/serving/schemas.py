"""The shapes of requests and answers, as JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from appliance.serving.cl100k import SPECIAL, WORDS
from appliance.serving.inputs import MAX_CHARACTERS, MAX_INPUTS, VISIBLE
from appliance.serving.requests import ENCODINGS

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "maxLength": MAX_CHARACTERS, "pattern": VISIBLE}
_TOKENS: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {
        "anyOf": [{"type": "integer", "minimum": 0, "maximum": WORDS - 1}, {"enum": [*SPECIAL]}]
    },
    "description": "Token ids of cl100k_base.",
}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_USAGE: Schema = {
    "type": "object",
    "required": ["prompt_tokens", "total_tokens"],
    "properties": {"prompt_tokens": _COUNT, "total_tokens": _COUNT},
}


def shape(required: Sequence[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties}


def listed(item: Schema) -> Schema:
    return shape(["data", "object"], data={"type": "array", "items": item}, object={})


def _optional(kind: str, **more: Any) -> Schema:  # noqa: ANN401 - JSON Schema's own keywords
    return {"type": [kind, "null"], **more}


def _texts(*shapes: Schema) -> Schema:
    return {"type": "array", "minItems": 1, "maxItems": MAX_INPUTS, "items": {"anyOf": [*shapes]}}


_INPUT: Schema = {"anyOf": [_TEXT, _TOKENS, _texts(_TEXT, _TOKENS)]}
_TRUNCATE = _optional("boolean", description="false refuses what is longer than the window.")


def _request(model: tuple[Schema, bool], required: Sequence[str], **fields: Schema) -> Schema:
    field, needed = model
    names = [*required, "model"] if needed else required
    return shape(names, model=field, truncate=_TRUNCATE, **fields)


def embedding_request(model: tuple[Schema, bool], sizes: Sequence[int]) -> Schema:
    """OpenAI's; ``sizes`` are what ``dimensions`` may be."""
    return _request(
        model,
        ["input"],
        input=_INPUT,
        encoding_format={"enum": [*ENCODINGS, None]},
        dimensions={"enum": [*sizes, None]},
        user={},
    )


def rerank_request(model: tuple[Schema, bool]) -> Schema:
    """Cohere's and Jina's."""
    return _request(
        model,
        ["query", "documents"],
        query=_TEXT,
        documents=_texts(_TEXT, shape(["text"], text=_TEXT)),
        top_n=_optional("integer", minimum=1),
        return_documents=_optional("boolean"),
        raw_scores=_optional("boolean", description="Leave out the sigmoid."),
    )


def classify_request(model: tuple[Schema, bool]) -> Schema:
    """Infinity's, and token ids as well."""
    return _request(model, ["input"], input=_INPUT)


def _result(key: str, item: Schema) -> Schema:
    names = ["object", key, "model", "usage", "id", "created"]
    text: Schema = {"type": "string"}
    items: Schema = {"type": "array", "items": item}
    rest = {"model": text, "usage": _USAGE, "id": text, "created": _COUNT}
    return shape(names, object=text, **{key: items}, **rest)


_NUMBERS: Schema = {"type": "array", "items": {"type": "number"}}
_BASE64: Schema = {"type": "string", "description": "Little-endian float32."}
EMBEDDINGS = _result(
    "data",
    shape(
        ["object", "embedding", "index"],
        object={"const": "embedding"},
        embedding={"anyOf": [_NUMBERS, _BASE64]},
        index=_COUNT,
    ),
)
RANKED = _result(
    "results",
    shape(
        ["relevance_score", "index"],
        relevance_score={"type": "number"},
        index=_COUNT,
        document=_optional("string"),
    ),
)
_LABEL = shape(["score", "label"], score={"type": "number"}, label={"type": "string"})
CLASSES = _result("data", {"type": "array", "items": _LABEL})
MODEL = shape(
    ["id", "object"],
    id={"type": "string"},
    object={"const": "model"},
    capabilities={"type": "array", "items": {"type": "string"}},
)
HEALTH = shape(["unix"], unix={"type": "number"})
READY = shape(["status"], status={"const": "ready"})
ERROR = shape(
    ["error"],
    error=shape(
        ["message", "type", "code"],
        message={"type": "string"},
        type={"type": "string"},
        param=_optional("string"),
        code={"type": ["string", "null"]},
    ),
)
