"""The OpenAPI document of what is really served: limits, names and errors included.

Infinity's own describes its stock routes, several of which are other here.
"""

from __future__ import annotations

from collections.abc import Sequence

from appliance.serving import bodies, schemas
from appliance.serving.catalog import Catalog
from appliance.serving.schemas import Schema

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
# What the API explorer offers to send.
_EXAMPLES: dict[str, Schema] = {
    "embeddings": {"input": ["A first document.", "A second one."]},
    "rerank": {
        "query": "What is the capital of France?",
        "documents": ["Berlin is a city in Germany.", "Paris is the capital of France."],
    },
    "classify": {"input": ["I like it."]},
}
_TRUNCATED = {
    "X-Truncated-Inputs": {
        "description": "How many inputs were longer than the model's window and were cut.",
        "schema": {"type": "integer", "minimum": 1},
    }
}


def document(version: str, catalog: Catalog) -> Schema:
    """The document for these models; a task that none of them can do is left out.

    Args:
        version: Infinity's.
        catalog: what is served.
    """
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
            **_tasks(catalog),
            "/models": {"get": _read("models", "What is served", schemas.listed(schemas.MODEL))},
            "/models/{id}": {"get": _named(catalog.names)},
            "/health": {"get": {**_read("health", "It runs", schemas.HEALTH), "security": []}},
            "/readyz": {"get": {**_read("readyz", "It works", schemas.READY), "security": []}},
            "/metrics": {"get": _metrics()},
        },
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "login": {"type": "http", "scheme": "basic"},
            },
            "schemas": {"Error": schemas.ERROR},
        },
    }


def _tasks(catalog: Catalog) -> Schema:
    """The routes that work, each with the models that can do it."""
    paths: Schema = {}
    if able := catalog.able("embed"):
        request = schemas.embedding_request(_model(able, catalog), catalog.sizes)
        paths["/embeddings"] = _work("embeddings", "Embed texts", request, schemas.EMBEDDINGS, able)
    if able := catalog.able("rerank"):
        request = schemas.rerank_request(_model(able, catalog))
        paths["/rerank"] = _work("rerank", "Rank documents", request, schemas.RANKED, able)
    if able := catalog.able("classify"):
        request = schemas.classify_request(_model(able, catalog))
        paths["/classify"] = _work("classify", "Classify texts", request, schemas.CLASSES, able)
    return paths


def _model(able: Sequence[str], catalog: Catalog) -> tuple[Schema, bool]:
    """The field ``model``, and whether it has to be there."""
    needed = len(catalog.models) > 1
    return {"enum": [*able] if needed else [*able, None]}, needed


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


def _work(name: str, summary: str, request: Schema, answer: Schema, able: Sequence[str]) -> Schema:
    example = {"model": able[0], **_EXAMPLES[name]}
    content = {"application/json": {"schema": request, "example": example}}
    return {
        "post": {
            "operationId": name,
            "tags": ["Texts"],
            "summary": summary,
            "requestBody": {"required": True, "content": content},
            "responses": {"200": _json("Done.", answer, _TRUNCATED), **_refusals(*_REFUSALS)},
        }
    }


def _read(name: str, summary: str, answer: Schema) -> Schema:
    responses = {"200": _json(summary, answer), **_refusals("401", "429", "503")}
    return {
        "operationId": name,
        "tags": ["Instance"],
        "summary": summary,
        "responses": responses,
    }


def _named(names: Sequence[str]) -> Schema:
    operation = _read("model", "One of the models", schemas.MODEL)
    error = _json("No such model.", {"$ref": "#/components/schemas/Error"})
    parameter = {"name": "id", "in": "path", "required": True, "schema": {"enum": list(names)}}
    responses = {**operation["responses"], "404": error}
    return {**operation, "parameters": [parameter], "responses": responses}


def _metrics() -> Schema:
    text = {"description": "Prometheus metrics.", "content": {"text/plain": {}}}
    return {
        "operationId": "metrics",
        "tags": ["Instance"],
        "summary": "Prometheus metrics",
        "responses": {"200": text, **_refusals("401")},
    }
