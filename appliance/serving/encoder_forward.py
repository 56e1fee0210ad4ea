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

from appliance.serving.encoder_kernels import KERNELS, Kernel, Product
from appliance.serving.encoder_weights import Affine, EncoderWeights, LayerWeights

# Up to _EXACT tokens every size has its own kernels, above it every _STEP-th.
_EXACT, _STEP = 64, 16


def join(*parts: Affine) -> Affine:
    """Several products of the same operand as one."""
    return Affine(
        torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
    )


class Layer:
    """One transformer layer on (tokens, hidden)."""

    def __init__(self, weights: LayerWeights, encoder: EncoderWeights, kernel: str) -> None:
        make = KERNELS[kernel]
        self._heads, self._epsilon = encoder.heads, encoder.epsilon
        self._attention_norm, self._norm = weights.attention_norm, weights.norm
        self._qkv = self._inputs(weights, make)
        self._out: Product = make(weights.attention_out)
        self._up: Product = make(weights.up, encoder.activation)
        self._down: Product = make(weights.down)

    def _inputs(self, weights: LayerWeights, make: Kernel) -> Product:
        return make(join(weights.query, weights.key, weights.value))

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
        self._query: Product = make(weights.query)
        return make(join(weights.key, weights.value))

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
        self._word, self._norm, self._epsilon = weights.word, weights.norm, weights.epsilon
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

    oneDNN compiles its kernels anew for each number of tokens (4 ms for a model in float32,
    10 ms in bfloat16) and keeps 1,024 of them, 200 sizes' worth: without this a bulk load
    of all sizes pushes those of the short queries out. Costs 1.5 % of a full chunk.
    """
    return -tokens % _STEP if tokens > _EXACT else 0


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
