"""The property of serving_split, of the server alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from serving_model import MINILM, single
from serving_split import LIMITS, TEXTS, check


@LIMITS
@given(st.data(), TEXTS)
def test_any_split_gives_the_same_vectors_order_and_usage(
    data: st.DataObject, texts: list[str]
) -> None:
    check(single().client, MINILM, data, texts)
