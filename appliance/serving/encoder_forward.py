"""A BERT-family encoder over concatenated sequences: no token of it is padding.

Stock models pad every text of a batch to the longest; at lognormal lengths that is half of
their work. Here the tokens of all texts stand in one (tokens, hidden) matrix, so each product
does only work that is asked for; attention alone needs to know where a text ends.

A pass is one call of TorchScript. From Python its 300 steps cost 1.3 ms in which nothing is
computed, a quarter of a query, and each of them waits for the interpreter's lock.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from appliance.serving.encoder_half import Half
from appliance.serving.encoder_kernels import (
    AFTER_GELU,
    KERNELS,
    Kernel,
    Packed,
    Plain,
    Product,
    Recorder,
    build,
)
from appliance.serving.encoder_layout import filler, grouped, split, starts
from appliance.serving.encoder_weights import Affine, EncoderWeights, LayerWeights, Reach, join


class Layer(nn.Module):
    """One transformer layer on (tokens, hidden)."""

    def __init__(
        self,
        weights: LayerWeights,
        reach: Reach | None,
        encoder: EncoderWeights,
        kernel: str,
        half: int = 0,
    ) -> None:
        """Prepare the products.

        Args:
            weights: of this layer.
            reach: how far the products' operands reach; wanted by int8 alone.
            encoder: the whole encoder's sizes.
            kernel: a name in ``KERNELS``.
            half: tokens up to which half-precision weights serve instead.
        """
        super().__init__()
        make = KERNELS[kernel]
        rest = self._rest_kernel(make)
        self._half, self._heads = half, encoder.heads
        self._epsilon = encoder.epsilon
        self._attention_norm, self._norm = _norm(weights.attention_norm), _norm(weights.norm)
        self._qkv = self._inputs(weights, reach, make)
        self._out = self._product(rest, weights.attention_out, reach=reach.out if reach else None)
        self._up = self._product(
            rest, weights.up, encoder.activation, reach=reach.up if reach else None
        )
        self._down = self._product(AFTER_GELU.get(rest, rest), weights.down)

    def _product(
        self, make: Kernel, affine: Affine, activation: str = "", *, reach: Tensor | None = None
    ) -> Product:
        product = build(make, affine, activation, reach=reach)
        return Half(affine, activation, self._half, product) if self._half else product

    def _inputs(self, weights: LayerWeights, reach: Reach | None, make: Kernel) -> Product:
        return self._product(
            make,
            join(weights.query, weights.key, weights.value),
            reach=reach.qkv if reach else None,
        )

    def _rest_kernel(self, make: Kernel) -> Kernel:
        return make

    def products(self) -> tuple[Product, Product, Product]:
        """In the order of ``Reach``."""
        return self._qkv, self._out, self._up

    def forward(self, x: Tensor, groups: list[tuple[int, int]]) -> Tensor:
        return self._rest(self._attend(self._qkv(x), groups), x)

    def _attend(self, qkv: Tensor, groups: list[tuple[int, int]]) -> Tensor:
        """Attention of every sequence to itself.

        PyTorch's fused CPU kernel reads the three operands where the product left them; a
        copy to contiguous ones first costs 5-15 %. One call for all texts of a length.
        """
        width = qkv.shape[1] // 3
        pieces: list[Tensor] = []
        for count, length, part in split(qkv, groups):
            shaped = part.view(count, length, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(shaped[0], shaped[1], shaped[2])
            pieces.append(mixed.transpose(1, 2).reshape(-1, width))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _rest(self, mixed: Tensor, x: Tensor) -> Tensor:
        """Everything after attention; both arguments are (tokens, hidden)."""
        x = normal(self._out.add(mixed, x), self._attention_norm, self._epsilon)
        return normal(self._down.add(self._up(x), x), self._norm, self._epsilon)


class FirstTokenLayer(Layer):
    """A last layer of which only each sequence's first token is wanted.

    Keys and values are still of all tokens; the query, the output product and the feed-forward
    are of one token a text. That leaves a sixth of the layer: 7 % of a 12-layer encoder.
    """

    def _inputs(self, weights: LayerWeights, reach: Reach | None, make: Kernel) -> Product:
        self._query = self._product(
            self._rest_kernel(make), weights.query, reach=reach.qkv if reach else None
        )
        return self._product(
            make, join(weights.key, weights.value), reach=reach.qkv if reach else None
        )

    def _rest_kernel(self, make: Kernel) -> Kernel:
        """Of few rows, and of any number of them: MKL compiles nothing for a size."""
        return Plain if make is Packed else make

    def forward(self, x: Tensor, groups: list[tuple[int, int]]) -> Tensor:
        keys_values = self._qkv(x)
        x = x[torch.tensor(starts(groups))]
        query = self._query(x)
        pieces: list[Tensor] = []
        row = 0
        for count, length, part in split(keys_values, groups):
            kv = part.view(count, length, 2, self._heads, -1).permute(2, 0, 3, 1, 4)
            q = query[row : row + count].view(count, self._heads, 1, -1)
            mixed = functional.scaled_dot_product_attention(q, kv[0], kv[1])
            pieces.append(mixed.reshape(count, -1))
            row += count
        return self._rest(torch.cat(pieces), x)


class Pass(nn.Module):
    """From token ids to the last layer's states."""

    def __init__(self, weights: EncoderWeights, layers: Sequence[Layer], *, half: bool) -> None:
        """Copy the tables; ``half`` keeps the words' in half precision."""
        super().__init__()
        # This pays for most of the second weights.
        self._word = weights.word.half() if half else weights.word.clone()
        # Nearly every token is of type 0: its row goes into the positions once.
        self._position = weights.position + weights.kind[0]
        self._kind = weights.kind - weights.kind[0]
        self._norm, self._epsilon = _norm(weights.norm), weights.epsilon
        self._layers = nn.ModuleList(layers)

    def forward(
        self, ids: Tensor, positions: Tensor, kinds: Tensor | None, groups: list[tuple[int, int]]
    ) -> Tensor:
        x = functional.embedding(ids, self._word).float()
        x += functional.embedding(positions, self._position)
        if kinds is not None:
            x += functional.embedding(kinds, self._kind)
        x = normal(x, self._norm, self._epsilon)
        for layer in self._layers:
            x = layer(x, groups)
        return x


class Encoder:
    """The encoder itself: token ids in, hidden states out."""

    def __init__(
        self,
        weights: EncoderWeights,
        kernel: str,
        *,
        first_token_only: bool,
        half: int = 0,
        reaches: Sequence[Reach] | None = None,
    ) -> None:
        """Pack the weights.

        Args:
            weights: of a model; copied.
            kernel: a name in ``encoder_kernels.KERNELS``.
            first_token_only: whether the states of other tokens than the first are not wanted.
            half: tokens up to which half-precision weights serve instead; 0 for never.
            reaches: of each layer, for int8.
        """
        self.hidden, self.padding = weights.hidden, weights.padding
        self._half = half
        self.first_token_only = first_token_only
        last = FirstTokenLayer if first_token_only else Layer
        kinds = [Layer] * (len(weights.layers) - 1) + [last]
        known: Sequence[Reach | None] = reaches or [None] * len(kinds)
        self.layers = [
            kind(layer, reach, weights, kernel, half)
            for kind, layer, reach in zip(kinds, weights.layers, known, strict=True)
        ]
        whole = Pass(weights, self.layers, half=bool(half))
        # What a recorder notes is read in Python.
        self._run: Any = whole if KERNELS[kernel] is Recorder else compiled(whole)

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
        if tokens > self._half and (extra := filler(tokens)):
            ids, positions = (
                functional.pad(ids, (0, extra)),
                functional.pad(positions, (0, extra)),
            )
            kinds = None if kinds is None else functional.pad(kinds, (0, extra))
            lengths = [*lengths, extra]
        # Its optimiser takes a quarter of a second and finds nothing in steps like these.
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined] # not in __all__
            states: Tensor = self._run(ids, positions, kinds, grouped(lengths))
        result: Tensor = states[: sequences if self.first_token_only else tokens]
        return result


def normal(x: Tensor, norm: tuple[Tensor, Tensor], epsilon: float) -> Tensor:
    """A layer norm, weight and bias, over the last dimension."""
    return functional.layer_norm(x, x.shape[-1:], norm[0], norm[1], epsilon)


def _norm(affine: Affine) -> tuple[Tensor, Tensor]:
    own = affine.copy()
    return own.weight, own.bias


def compiled(module: nn.Module) -> Any:  # noqa: ANN401 - TorchScript's own type
    """The module in TorchScript, which runs without Python and its lock.

    PyTorch calls it deprecated, in favour of what needs a C++ compiler on the machine.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(module)
