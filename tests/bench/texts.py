"""Real text in the shapes of real loads."""

from __future__ import annotations

import random
from pydoc_data.topics import topics

_WORDS = " ".join(topics.values()).split()  # English prose on Python, in every Python
_LONGEST = 320  # words; about 500 tokens


def passage(draw: random.Random, words: int) -> str:
    start = draw.randrange(len(_WORDS) - words)
    return " ".join(_WORDS[start : start + words])


def mixed(count: int, seed: int = 0) -> list[str]:
    """Passages of lognormal length: half under 55 words, a tenth over 200."""
    draw = random.Random(seed)  # noqa: S311 - the same texts in every run
    lengths = [max(3, min(_LONGEST, int(draw.lognormvariate(4.0, 1.0)))) for _ in range(count)]
    return [passage(draw, words) for words in lengths]


def short(count: int, seed: int = 0) -> list[str]:
    """Queries of 4 to 12 words."""
    draw = random.Random(seed)  # noqa: S311 - the same texts in every run
    return [passage(draw, draw.randint(4, 12)) for _ in range(count)]


def longest(seed: int = 0) -> list[str]:
    """One text of at least 512 tokens; models cut it there."""
    return [passage(random.Random(seed), 700)]  # noqa: S311 - the same texts in every run


def trace(count: int, seed: int = 0) -> list[list[str]]:
    """Requests as a search service sends them: seven queries, two passages, a batch of 16, …"""
    queries, passages = short(count, seed), mixed(16 * count, seed + 1)
    draw = random.Random(seed)  # noqa: S311 - the same texts in every run
    sizes = draw.choices((0, 1, 16), weights=(7, 2, 1), k=count)
    return [
        passages[16 * i : 16 * i + size] if size else [queries[i]] for i, size in enumerate(sizes)
    ]
