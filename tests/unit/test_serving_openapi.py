"""Requests made from our own OpenAPI document: no 5xx, every answer as described."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth
from serving_model import three

LIMITS = settings(
    max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
# The gate asks for credentials, not the server behind it.
GATES = [ignored_auth]


OPERATIONS = [
    ("POST", "/embeddings"),
    ("POST", "/rerank"),
    ("POST", "/classify"),
    ("GET", "/models"),
    ("GET", "/models/{id}"),
    ("GET", "/health"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]


DEMANDING = OPERATIONS[:3]  # the others take nothing that can be wrong


@cache
def document() -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{three().client.base_url}/openapi.json")


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [(*operation, GenerationMode.POSITIVE) for operation in OPERATIONS]
    + [(*operation, GenerationMode.NEGATIVE) for operation in DEMANDING],
)
def test_answers_conform_to_the_document(method: str, path: str, mode: GenerationMode) -> None:
    """Positive: what the document allows is done. Negative: what it does not is refused."""

    @LIMITS
    @given(case=document()[path][method].as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(excluded_checks=GATES)

    check()


def test_every_route_is_described() -> None:
    paths = three().client.get("/openapi.json").json()["paths"]
    assert {(method.upper(), path) for path in paths for method in paths[path]} == set(OPERATIONS)
