"""What a client asks for, checked: one frozen value a route."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from appliance.serving import inputs
from appliance.serving.errors import invalid

ENCODINGS = ("float", "base64")


@dataclass(frozen=True)
class EmbeddingRequest:
    """``dimensions`` None is the model's own; ``truncate`` False refuses what is too long."""

    model: str | None
    texts: list[str]
    encoding: str
    dimensions: int | None
    truncate: bool
    modality: str


@dataclass(frozen=True)
class RerankRequest:
    """``top_n`` None keeps all; ``raw_scores`` leaves out the sigmoid."""

    model: str | None
    query: str
    documents: list[str]
    top_n: int | None
    return_documents: bool
    raw_scores: bool
    truncate: bool


@dataclass(frozen=True)
class ClassifyRequest:
    model: str | None
    texts: list[str]
    truncate: bool


def embedding(body: dict[str, Any]) -> EmbeddingRequest:
    """Check OpenAI's request; raises ApiError (400)."""
    encoding = body.get("encoding_format", "float")
    if not isinstance(encoding, str) or encoding not in ENCODINGS:
        raise invalid(
            "'encoding_format' has to be 'float' or 'base64'.", "encoding_format", "invalid_value"
        )
    modality = _modality(body)
    # Other media are refused before anything of them is read or fetched.
    texts = inputs.texts(body.get("input"), "input") if modality == "text" else []
    return EmbeddingRequest(
        model=_model(body),
        texts=texts,
        encoding=encoding,
        dimensions=_whole(body, "dimensions"),
        truncate=_flag(body, "truncate", default=True),
        modality=modality,
    )


def rerank(body: dict[str, Any]) -> RerankRequest:
    """Check Cohere's and Jina's request; raises ApiError (400)."""
    return RerankRequest(
        model=_model(body),
        query=inputs.text(body.get("query"), "query"),
        documents=inputs.documents(body.get("documents"), "documents"),
        top_n=_whole(body, "top_n"),
        return_documents=_flag(body, "return_documents", default=False),
        raw_scores=_flag(body, "raw_scores", default=False),
        truncate=_flag(body, "truncate", default=True),
    )


def classify(body: dict[str, Any]) -> ClassifyRequest:
    """Check Infinity's request; raises ApiError (400)."""
    return ClassifyRequest(
        model=_model(body),
        texts=inputs.texts(body.get("input"), "input"),
        truncate=_flag(body, "truncate", default=True),
    )


def _model(body: dict[str, Any]) -> str | None:
    name = body.get("model")
    if name is not None and not isinstance(name, str):
        raise invalid("'model' has to be a string.", "model", "invalid_type")
    return name


def _modality(body: dict[str, Any]) -> str:
    modality = body.get("modality", "text")
    if modality not in ("text", "image", "audio"):
        raise invalid("'modality' has to be 'text'.", "modality", "invalid_value")
    return str(modality)


def _flag(body: dict[str, Any], name: str, *, default: bool) -> bool:
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise invalid(f"'{name}' has to be true or false.", name, "invalid_type")
    return value


def _whole(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    # JSON has one kind of number: 384.0 is 384.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        raise invalid(f"'{name}' has to be a whole number.", name, "invalid_type")
    if value < 1:
        raise invalid(f"'{name}' has to be at least 1.", name, "invalid_value")
    return int(value)
