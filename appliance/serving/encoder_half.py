"""Half-precision weights for few tokens, whose cost is reading the weights."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from appliance.serving.encoder_kernels import Product, activate
from appliance.serving.encoder_weights import Affine, EncoderWeights

# Beyond this a number has no half-precision neighbour; trained weights stay below 10.
_LARGEST = 6e4


class Half:
    """Weights in 16 bits, operands and sums in 32 (FBGEMM): a cosine loss of 1e-7."""

    def __init__(self, affine: Affine, activation: str = "") -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # as of Int8's
            self._packed = torch.ops.quantized.linear_prepack_fp16(
                affine.weight.contiguous(), affine.bias.clone()
            )
        self._run, self._activation = torch.ops.quantized.linear_dynamic_fp16, activation

    def __call__(self, x: Tensor) -> Tensor:
        return activate(self._run(x, self._packed), self._activation)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        y: Tensor = self._run(x, self._packed)
        return y.add_(residual)


class BySize:
    """One product for few tokens, another for many."""

    def __init__(self, most: int, few: Product, many: Product) -> None:
        self._most, self._few, self._many = most, few, many

    def __call__(self, x: Tensor) -> Tensor:
        return (self._few if len(x) <= self._most else self._many)(x)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return (self._few if len(x) <= self._most else self._many).add(x, residual)


def fits(weights: EncoderWeights) -> bool:
    """Whether this model can be had in half precision, on this CPU and in this range."""
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        return False
    products = [affine.weight for layer in weights.layers for affine in layer.products]
    return all(bool(weight.abs().max() < _LARGEST) for weight in (weights.word, *products))
