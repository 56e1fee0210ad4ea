"""A BERT-family encoder over concatenated sequences: no token of it is padding.

Stock models pad every text of a batch to the longest; at lognormal lengths that is half of
their work. Here the tokens of all texts stand in one (tokens, hidden) matrix, so each product
does only work that is asked for; attention alone needs to know where a text ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from appliance.serving.encoder_kernels import KERNELS, Kernel, Packed, Plain, Product
from appliance.serving.encoder_weights import Affine, EncoderWeights, LayerWeights

# Up to so many tokens, sizes go in steps of so many.
_STEPS = ((64, 4), (256, 16), (10**9, 32))


def join(*parts: Affine) -> Affine:
    """Several products of the same operand as one."""
    return Affine(
        torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
    )


class Layer:
    """One transformer layer on (tokens, hidden)."""

    def __init__(self, weights: LayerWeights, encoder: EncoderWeights, kernel: str) -> None:
        make = KERNELS[kernel]
        rest = self._rest_kernel(make)
        self._heads, self._epsilon = encoder.heads, encoder.epsilon
        self._attention_norm, self._norm = weights.attention_norm.copy(), weights.norm.copy()
        self._qkv = self._inputs(weights, make)
        self._out: Product = rest(weights.attention_out)
        self._up: Product = rest(weights.up, encoder.activation)
        self._down: Product = rest(weights.down)

    def _inputs(self, weights: LayerWeights, make: Kernel) -> Product:
        return make(join(weights.query, weights.key, weights.value))

    def _rest_kernel(self, make: Kernel) -> Kernel:
        return make

    def __call__(self, x: Tensor, groups: Sequence[tuple[int, int]]) -> Tensor:
        return self._rest(self._attend(self._qkv(x), groups), x)

    def _attend(self, qkv: Tensor, groups: Sequence[tuple[int, int]]) -> Tensor:
        """Attention of every sequence to itself.

        PyTorch's fused CPU kernel reads the three operands where the product left them; a
        copy to contiguous ones first costs 5-15 %. One call for all texts of a length.
        """
        width = qkv.shape[1] // 3
        pieces = []
        for count, length, part in _split(qkv, groups):
            shaped = part.view(count, length, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(shaped[0], shaped[1], shaped[2])
            pieces.append(mixed.transpose(1, 2).reshape(-1, width))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _rest(self, mixed: Tensor, x: Tensor) -> Tensor:
        """Everything after attention; both arguments are (tokens, hidden)."""
        x = self._normal(self._out.add(mixed, x), self._attention_norm)
        return self._normal(self._down.add(self._up(x), x), self._norm)

    def _normal(self, x: Tensor, norm: Affine) -> Tensor:
        return functional.layer_norm(x, x.shape[1:], norm.weight, norm.bias, self._epsilon)


class FirstTokenLayer(Layer):
    """A last layer of which only each sequence's first token is wanted.

    Keys and values are still of all tokens; the query, the output product and the feed-forward
    are of one token a text. That leaves a sixth of the layer: 7 % of a 12-layer encoder.
    """

    def _inputs(self, weights: LayerWeights, make: Kernel) -> Product:
        self._query: Product = self._rest_kernel(make)(weights.query)
        return make(join(weights.key, weights.value))

    def _rest_kernel(self, make: Kernel) -> Kernel:
        """Of few rows, and of any number of them: MKL compiles nothing for a size."""
        return Plain if make is Packed else make

    def __call__(self, x: Tensor, groups: Sequence[tuple[int, int]]) -> Tensor:
        keys_values = self._qkv(x)
        x = x[torch.tensor(_starts(groups))]
        query = self._query(x)
        pieces, row = [], 0
        for count, length, part in _split(keys_values, groups):
            kv = part.view(count, length, 2, self._heads, -1).permute(2, 0, 3, 1, 4)
            q = query[row : row + count].view(count, self._heads, 1, -1)
            mixed = functional.scaled_dot_product_attention(q, kv[0], kv[1])
            pieces.append(mixed.reshape(count, -1))
            row += count
        return self._rest(torch.cat(pieces), x)


class Encoder:
    """The encoder itself: token ids in, hidden states out."""

    def __init__(self, weights: EncoderWeights, kernel: str, *, first_token_only: bool) -> None:
        self.hidden, self.padding = weights.hidden, weights.padding
        self.first_token_only = first_token_only
        self._word, self._norm = weights.word.clone(), weights.norm.copy()
        self._epsilon = weights.epsilon
        # Nearly every token is of type 0: its row goes into the positions once.
        self._position = weights.position + weights.kind[0]
        self._kind = weights.kind - weights.kind[0]
        last = FirstTokenLayer if first_token_only else Layer
        kinds = [Layer] * (len(weights.layers) - 1) + [last]
        self._layers = [
            kind(layer, weights, kernel) for kind, layer in zip(kinds, weights.layers, strict=True)
        ]

    def __call__(
        self, ids: Tensor, positions: Tensor, kinds: Tensor | None, lengths: Sequence[int]
    ) -> Tensor:
        """Hidden states of concatenated sequences.

        Args:
            ids: (tokens), int64.
            positions: (tokens), int64, rows of the position table.
            kinds: (tokens), int64, token types; None where all are 0.
            lengths: tokens of each sequence, summing up to all; equal ones side by side.

        Returns:
            float32, (tokens, hidden), or (sequences, hidden) with ``first_token_only``.
        """
        tokens, sequences = len(ids), len(lengths)
        if filler := _filler(tokens):
            ids, positions = (
                functional.pad(ids, (0, filler)),
                functional.pad(positions, (0, filler)),
            )
            kinds = None if kinds is None else functional.pad(kinds, (0, filler))
            lengths = [*lengths, filler]
        x = functional.embedding(ids, self._word)
        x += functional.embedding(positions, self._position)
        if kinds is not None:
            x += functional.embedding(kinds, self._kind)
        x = functional.layer_norm(
            x, (self.hidden,), self._norm.weight, self._norm.bias, self._epsilon
        )
        groups = [(len(list(run)), length) for length, run in groupby(lengths)]
        for layer in self._layers:
            x = layer(x, groups)
        return x[: sequences if self.first_token_only else tokens]


def _filler(tokens: int) -> int:
    """Tokens to add, as one more sequence, so that few sizes occur.

    oneDNN compiles its kernels anew for each number of tokens: 4 ms for a model in float32,
    10 ms in bfloat16, and 1.5 MB. In steps there are 36 sizes up to a chunk, all of which it
    keeps; the filler costs 2 % of a chunk, and of a query a quarter of a millisecond.
    """
    return next(-tokens % step for limit, step in _STEPS if tokens <= limit)


def _split(rows: Tensor, groups: Sequence[tuple[int, int]]) -> list[tuple[int, int, Tensor]]:
    """(count, length, their rows) of each group of equally long sequences."""
    if len(groups) == 1:
        return [(*groups[0], rows)]
    parts = torch.split(rows, [count * length for count, length in groups])
    return [(count, length, part) for (count, length), part in zip(groups, parts, strict=True)]


def _starts(groups: Sequence[tuple[int, int]]) -> list[int]:
    """The row of each sequence's first token."""
    starts: list[int] = []
    row = 0
    for count, length in groups:
        starts.extend(range(row, row + count * length, length))
        row += count * length
    return starts
