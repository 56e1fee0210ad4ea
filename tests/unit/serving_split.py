"""Whatever the texts and however they are split into requests: same vectors, order, usage."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import httpx
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# Any character, surrogates left out (a JSON library may refuse to write them).
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300).filter(
    lambda text: not text.isspace()
)
TEXTS = st.lists(TEXT, min_size=1, max_size=12)
LIMITS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def ask(client: httpx.Client, model: str, texts: list[str]) -> tuple[np.ndarray[Any, Any], int]:
    answer = client.post("/v1/embeddings", json={"input": texts, "model": model})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert [item["index"] for item in body["data"]] == list(range(len(texts)))
    return np.array([item["embedding"] for item in body["data"]]), body["usage"]["total_tokens"]


def check(client: httpx.Client, model: str, data: st.DataObject, texts: list[str]) -> None:
    """Ask for the texts together, then in parts that ``data`` chooses."""
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(texts) - 1)), max_size=4)))
    edges = [0, *(cut for cut in cuts if cut < len(texts)), len(texts)]
    parts = [texts[a:b] for a, b in pairwise(edges)]
    whole, usage = ask(client, model, texts)
    split = [ask(client, model, part) for part in parts]
    assert np.isfinite(whole).all()
    together = np.concatenate([vectors for vectors, _ in split])
    assert (whole * together).sum(1).min() >= 0.99999
    assert sum(tokens for _, tokens in split) == usage
