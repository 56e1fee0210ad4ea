"""Whatever the texts and however they are split into requests: same vectors, order, usage."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving_model import single

# Any character, surrogates left out (a JSON library may refuse to write them).
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300).filter(
    lambda text: not text.isspace()
)


def ask(texts: list[str]) -> tuple[np.ndarray[Any, Any], int]:
    answer = single().client.post("/v1/embeddings", json={"input": texts})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert [item["index"] for item in body["data"]] == list(range(len(texts)))
    return np.array([item["embedding"] for item in body["data"]]), body["usage"]["total_tokens"]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(st.data(), st.lists(TEXT, min_size=1, max_size=12))
def test_any_split_gives_the_same_vectors_order_and_usage(
    data: st.DataObject, texts: list[str]
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(texts) - 1)), max_size=4)))
    edges = [0, *(cut for cut in cuts if cut < len(texts)), len(texts)]
    parts = [texts[a:b] for a, b in pairwise(edges)]
    whole, usage = ask(texts)
    split = [ask(part) for part in parts]
    assert np.isfinite(whole).all()
    together = np.concatenate([vectors for vectors, _ in split])
    assert (whole * together).sum(1).min() >= 0.99999
    assert sum(tokens for _, tokens in split) == usage
