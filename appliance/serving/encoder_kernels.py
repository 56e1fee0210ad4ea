"""The matrix products of a layer, in the forms a CPU may be fastest with.

All of them compute ``activation(x @ weight.T + bias)`` and ``residual + x @ weight.T + bias``.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional

from appliance.serving.encoder_weights import Affine

# The smallest a scale may be: a row or channel of zeros stays zeros.
_TINY = 1e-12

# Activation -> (oneDNN's name, its algorithm), fused into the product's last step: on its own
# an exact GELU reads and writes four times a layer's width once more, 5 % of a forward.
FUSED = {
    "": ("none", ""),
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}


class Product(nn.Module, ABC):
    """A linear layer ready to run; x is (tokens, in), the result (tokens, out).

    Every kind's methods are in the part of Python that TorchScript compiles.
    """

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """The activation of the product."""

    @abstractmethod
    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """The product plus ``residual`` (tokens, out), in float32, without an activation."""


def activate(x: Tensor, name: str, algorithm: str) -> Tensor:
    """The activation of a product that does not fuse it; may overwrite ``x``.

    Args:
        x: of any shape.
        name: as oneDNN calls it, see ``FUSED``.
        algorithm: of a GELU.
    """
    if name == "relu":
        return torch.relu_(x)
    if name == "gelu":
        return functional.gelu(x, approximate=algorithm)
    return x


class Plain(Product):
    """PyTorch's own product; MKL repacks the weights in every call."""

    def __init__(self, affine: Affine, activation: str = "") -> None:
        super().__init__()
        own = affine.copy()
        self._weight, self._bias = own.weight, own.bias
        self._name, self._algorithm = FUSED[activation]

    def forward(self, x: Tensor) -> Tensor:
        y = functional.linear(x, self._weight, self._bias)
        return activate(y, self._name, self._algorithm)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return functional.linear(x, self._weight, self._bias).add_(residual)


class Packed(Product):
    """Weights laid out for oneDNN's kernel once: 1.5-2x up to 32 tokens, never slower here."""

    def __init__(self, affine: Affine, activation: str = "") -> None:
        super().__init__()
        reorder = torch.ops.mkldnn._reorder_linear_weight  # noqa: SLF001 - the only door to it
        self._weight, self._bias = reorder(affine.weight.contiguous()), affine.bias.clone()
        self._name, self._algorithm = FUSED[activation]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001 - the only door to it
            x, self._weight, self._bias, self._name, [], self._algorithm
        )
        return y

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001 - the same
            x, residual, self._weight, self._bias, "add"
        )
        return y


class BFloat16(Product):
    """Packed bfloat16 weights and operands for AMX; the residual stream stays float32.

    In bfloat16 throughout, the loss of cosine doubles (8e-5 against 4e-5 with MiniLM).
    """

    def __init__(self, affine: Affine, activation: str = "") -> None:
        super().__init__()
        half = Affine(affine.weight.bfloat16(), affine.bias.bfloat16())
        self._product = Packed(half, activation)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self._product(x.to(torch.bfloat16))
        return y

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        y: Tensor = residual + self._product(x.to(torch.bfloat16))
        return y


class Int8(Product):
    """Weights in eight bits a channel, operands in eight bits with a scale for each token.

    PyTorch's dynamic product has one scale for all rows, which one outlying token spoils, and
    a few channels are large in every token. Rows are brought to one size first, and half of
    the channels' differences (in powers) go into the weights, as SmoothQuant does. With the
    feed-forward's second product in more, see ``AFTER_GELU``, MiniLM keeps 0.995 of cosine.
    """

    def __init__(self, affine: Affine, activation: str = "", reach: Tensor | None = None) -> None:
        """Quantise the weights; ``reach`` (in) is how large each channel of operands gets."""
        super().__init__()
        self._shrink = torch.ones(1)
        if reach is not None:
            most = affine.weight.abs().amax(dim=0)
            self._shrink = (most.clamp_min(_TINY) / reach.clamp_min(_TINY)).sqrt()
            affine = Affine(affine.weight / self._shrink, affine.bias)
        weight = affine.weight.contiguous()
        scale = (weight.abs().amax(dim=1) / 127).clamp_min(_TINY)
        zero = torch.zeros(weight.shape[0], dtype=torch.int64)
        with warnings.catch_warnings():
            # Deprecated together with linear_prepack, which takes nothing else.
            warnings.simplefilter("ignore", UserWarning)
            whole = torch.quantize_per_channel(weight, scale, zero, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(whole, None)
        self._bias, self._tiny = affine.bias.clone(), _TINY
        self._name, self._algorithm = FUSED[activation]

    def forward(self, x: Tensor) -> Tensor:
        return activate(self._product(x), self._name, self._algorithm)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return self._product(x).add_(residual)

    def _product(self, x: Tensor) -> Tensor:
        x = x * self._shrink
        size = x.abs().amax(dim=1, keepdim=True).clamp_min_(self._tiny)
        y = torch.ops.quantized.linear_dynamic(x / size, self._packed)
        return torch.addcmul(self._bias, y, size)


class Recorder(Plain):
    """A plain product that remembers how large each channel of its operands got."""

    def __init__(self, affine: Affine, activation: str = "") -> None:
        super().__init__(affine, activation)
        self.reach = torch.zeros(affine.weight.shape[1])

    def forward(self, x: Tensor) -> Tensor:
        self._see(x)
        return super().forward(x)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        self._see(x)
        return super().add(x, residual)

    def _see(self, x: Tensor) -> None:
        self.reach = torch.maximum(self.reach, x.abs().amax(dim=0))


Kernel = type[Plain] | type[Packed] | type[BFloat16] | type[Int8]
# Of all four products, the one after the GELU loses most in eight bits: it has more.
AFTER_GELU: dict[Kernel, Kernel] = {Int8: Packed}
KERNELS: dict[str, Kernel] = {
    "plain": Plain,
    "packed": Packed,
    "bfloat16": BFloat16,
    "int8": Int8,
    "recorder": Recorder,
}


def build(
    make: Kernel, affine: Affine, activation: str = "", *, reach: Tensor | None = None
) -> Product:
    """A product of this kind; ``reach`` is of use to int8 alone."""
    if issubclass(make, Int8):
        return make(affine, activation, reach)
    return make(affine, activation)
