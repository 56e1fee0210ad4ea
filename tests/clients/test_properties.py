"""The property of serving_split, of a whole machine through its gate."""

from __future__ import annotations

import httpx
import pytest
from endpoint import EMBEDDER, Endpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving_split import LIMITS, TEXTS, check

pytestmark = pytest.mark.boot


@settings(LIMITS, suppress_health_check=[*HealthCheck])
@given(st.data(), TEXTS)
def test_any_split_gives_the_same_vectors_order_and_usage(
    endpoint: Endpoint, data: st.DataObject, texts: list[str]
) -> None:
    with httpx.Client(base_url=endpoint.url, headers=endpoint.bearer, timeout=60) as client:
        check(client, EMBEDDER, data, texts)
