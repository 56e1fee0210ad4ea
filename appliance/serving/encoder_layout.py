"""How sequences of different lengths lie side by side in one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from torch import Tensor

# Up to so many tokens, sizes go in steps of so many.
_STEPS = ((64, 4), (256, 16), (10**9, 32))


def filler(tokens: int) -> int:
    """Tokens to add, as one more sequence, so that few sizes occur.

    oneDNN compiles its kernels anew for each number of tokens: 4 ms for a model in float32,
    10 ms in bfloat16, and 1.5 MB. In steps there are 36 sizes up to a chunk, all of which it
    keeps; the filler costs 2 % of a chunk. Half-precision weights are FBGEMM's, which compiles
    nothing.
    """
    return next(-tokens % step for limit, step in _STEPS if tokens <= limit)


def grouped(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(count, length) of each run of equally long sequences."""
    return [(len(list(run)), length) for length, run in groupby(lengths)]


def split(rows: Tensor, groups: list[tuple[int, int]]) -> list[tuple[int, int, Tensor]]:
    """(count, length, their rows) of each group of equally long sequences."""
    parts: list[tuple[int, int, Tensor]] = []
    row = 0
    for count, length in groups:
        parts.append((count, length, rows.narrow(0, row, count * length)))
        row += count * length
    return parts


def starts(groups: list[tuple[int, int]]) -> list[int]:
    """The row of each sequence's first token."""
    starts: list[int] = []
    row = 0
    for count, length in groups:
        for _ in range(count):
            starts.append(row)
            row += length
    return starts
