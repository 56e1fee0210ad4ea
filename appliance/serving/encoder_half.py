"""Half-precision weights for few tokens, whose cost is reading the weights."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from appliance.serving.encoder_kernels import FUSED, Product, activate
from appliance.serving.encoder_weights import Affine, EncoderWeights

# Beyond this a number has no half-precision neighbour; trained weights stay below 10.
_LARGEST = 6e4


class Half(Product):
    """Weights in 16 bits, operands and sums in 32 (FBGEMM), and another product for more tokens.

    A cosine loss of 1e-7.
    """

    def __init__(self, affine: Affine, activation: str, most: int, many: Product) -> None:
        """Pack the weights; beyond ``most`` tokens, ``many`` runs."""
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # as of Int8's
            self._packed = torch.ops.quantized.linear_prepack_fp16(
                affine.weight.contiguous(), affine.bias.clone()
            )
        self._name, self._algorithm = FUSED[activation]
        self._most, self._many = most, many

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > self._most:
            y: Tensor = self._many(x)
            return y
        product = torch.ops.quantized.linear_dynamic_fp16(x, self._packed)
        return activate(product, self._name, self._algorithm)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        if x.shape[0] > self._most:
            return self._many.add(x, residual)
        y: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, self._packed).add_(residual)
        return y


def fits(weights: EncoderWeights) -> bool:
    """Whether this model can be had in half precision, on this CPU and in this range."""
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        return False
    products = [affine.weight for layer in weights.layers for affine in layer.products]
    return all(bool(weight.abs().max() < _LARGEST) for weight in (weights.word, *products))
