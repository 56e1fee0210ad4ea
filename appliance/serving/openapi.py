"""The OpenAPI document of what is really served: limits, names and errors included.

Infinity's own describes its stock routes, several of which are other here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from appliance.serving import bodies
from appliance.serving.inputs import MAX_CHARACTERS, MAX_INPUTS
from appliance.serving.requests import ENCODINGS

Schema = dict[str, Any]

_REFUSALS = {
    "400": "The request cannot be meant; the message says which field.",
    "401": "No credential, or a wrong one.",
    "413": f"The body is larger than {bodies.MAX_BODY // 2**20} MiB.",
    "415": "The body is not JSON.",
    "429": "As much work is waiting as the server takes.",
    "500": "The server failed on this request.",
    "503": "The model is loading or being restarted.",
}
_RETRY = {
    "Retry-After": {
        "description": "Seconds until another try makes sense.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_TRUNCATED = {
    "X-Truncated-Inputs": {
        "description": "How many inputs were longer than the model's window and were cut.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_TEXT: Schema = {"type": "string", "maxLength": MAX_CHARACTERS, "pattern": r"\S"}
_TOKENS: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "integer", "minimum": 0, "maximum": 100276},
    "description": "Token ids of cl100k_base.",
}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_USAGE: Schema = {
    "type": "object",
    "required": ["prompt_tokens", "total_tokens"],
    "properties": {"prompt_tokens": _COUNT, "total_tokens": _COUNT},
}


def document(version: str, names: Sequence[str]) -> Schema:
    """The document.

    Args:
        version: Infinity's.
        names: what ``model`` may be, aliases included.
    """
    model: Schema = {"enum": [*names, None], "description": "May be left out with one model."}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Infinity",
            "version": version,
            "summary": "Text embeddings, reranking and classification, as OpenAI's clients call it",
            "description": "Every path is also served below `/v1`.",
        },
        "security": [{"key": []}, {"login": []}],
        "paths": {
            "/embeddings": _work("embeddings", "Embed texts", _embedding(model), _EMBEDDINGS),
            "/rerank": _work("rerank", "Rank documents for a query", _rerank(model), _RANKED),
            "/classify": _work("classify", "Classify texts", _classify(model), _CLASSES),
            "/models": {"get": _read("models", "What is served", _list(_MODEL))},
            "/models/{id}": {"get": _named(_read("model", "One of the models", _MODEL), names)},
            "/health": {"get": {**_read("health", "The server runs", _HEALTH), "security": []}},
            "/readyz": {"get": {**_readyz(), "security": []}},
            "/metrics": {"get": _metrics()},
        },
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "login": {"type": "http", "scheme": "basic"},
            },
            "schemas": {"Error": _ERROR},
        },
    }


def _object(required: Sequence[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties}


def _list(item: Schema) -> Schema:
    return _object(["data", "object"], data={"type": "array", "items": item}, object={})


def _optional(kind: str, **more: Any) -> Schema:  # noqa: ANN401 - JSON Schema's own keywords
    return {"type": [kind, "null"], **more}


def _texts(*shapes: Schema) -> Schema:
    return {"type": "array", "minItems": 1, "maxItems": MAX_INPUTS, "items": {"anyOf": [*shapes]}}


_INPUT: Schema = {"anyOf": [_TEXT, _TOKENS, _texts(_TEXT, _TOKENS)]}
_TRUNCATE = _optional("boolean", description="false refuses what is longer than the window.")


def _embedding(model: Schema) -> Schema:
    return _object(
        ["input"],
        input=_INPUT,
        model=model,
        encoding_format={"enum": [*ENCODINGS, None]},
        dimensions=_optional("integer", minimum=1),
        truncate=_TRUNCATE,
        user={},
    )


def _rerank(model: Schema) -> Schema:
    return _object(
        ["query", "documents"],
        query=_TEXT,
        documents=_texts(_TEXT, _object(["text"], text=_TEXT)),
        model=model,
        top_n=_optional("integer", minimum=1),
        return_documents=_optional("boolean"),
        raw_scores=_optional("boolean", description="Leave out the sigmoid."),
        truncate=_TRUNCATE,
    )


def _classify(model: Schema) -> Schema:
    return _object(["input"], input=_INPUT, model=model, truncate=_TRUNCATE)


def _result(key: str, item: Schema) -> Schema:
    names = ["object", key, "model", "usage", "id", "created"]
    text: Schema = {"type": "string"}
    items: Schema = {"type": "array", "items": item}
    rest = {"model": text, "usage": _USAGE, "id": text, "created": _COUNT}
    return _object(names, object=text, **{key: items}, **rest)


_NUMBERS: Schema = {"type": "array", "items": {"type": "number"}}
_BASE64: Schema = {"type": "string", "description": "Little-endian float32."}
_EMBEDDINGS = _result(
    "data",
    _object(
        ["object", "embedding", "index"],
        object={"const": "embedding"},
        embedding={"anyOf": [_NUMBERS, _BASE64]},
        index=_COUNT,
    ),
)
_RANKED = _result(
    "results",
    _object(
        ["relevance_score", "index"],
        relevance_score={"type": "number"},
        index=_COUNT,
        document=_optional("string"),
    ),
)
_LABEL = _object(["score", "label"], score={"type": "number"}, label={"type": "string"})
_CLASSES = _result("data", {"type": "array", "items": _LABEL})
_MODEL = _object(
    ["id", "object"],
    id={"type": "string"},
    object={"const": "model"},
    capabilities={"type": "array", "items": {"type": "string"}},
)
_HEALTH = _object(["unix"], unix={"type": "number"})
_ERROR = _object(
    ["error"],
    error=_object(
        ["message", "type", "code"],
        message={"type": "string"},
        type={"type": "string"},
        param=_optional("string"),
        code={"type": ["string", "null"]},
    ),
)


def _json(description: str, schema: Schema, headers: Schema | None = None) -> Schema:
    found: Schema = {
        "description": description,
        "content": {"application/json": {"schema": schema}},
    }
    return {**found, "headers": headers} if headers else found


def _refusals(*statuses: str) -> Schema:
    error = {"$ref": "#/components/schemas/Error"}
    return {
        status: _json(_REFUSALS[status], error, _RETRY if status in ("429", "503") else None)
        for status in statuses
    }


def _work(name: str, summary: str, request: Schema, answer: Schema) -> Schema:
    content = {"application/json": {"schema": request}}
    return {
        "post": {
            "operationId": name,
            "summary": summary,
            "requestBody": {"required": True, "content": content},
            "responses": {"200": _json("Done.", answer, _TRUNCATED), **_refusals(*_REFUSALS)},
        }
    }


def _read(name: str, summary: str, answer: Schema) -> Schema:
    responses = {"200": _json(summary, answer), **_refusals("401", "429", "503")}
    return {"operationId": name, "summary": summary, "responses": responses}


def _named(operation: Schema, names: Sequence[str]) -> Schema:
    error = _json("No such model.", {"$ref": "#/components/schemas/Error"})
    parameter = {"name": "id", "in": "path", "required": True, "schema": {"enum": list(names)}}
    responses = {**operation["responses"], "404": error}
    return {**operation, "parameters": [parameter], "responses": responses}


def _readyz() -> Schema:
    return _read("readyz", "The model answers", _object(["status"], status={"const": "ready"}))


def _metrics() -> Schema:
    text = {"description": "Prometheus metrics.", "content": {"text/plain": {}}}
    return {
        "operationId": "metrics",
        "summary": "Prometheus metrics",
        "responses": {"200": text, **_refusals("401")},
    }
