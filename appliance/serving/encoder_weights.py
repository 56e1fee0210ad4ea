"""What a BERT-family encoder computes with: its tensors, read from a loaded transformers model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# The classes whose layer is BERT's to the letter (post-norm, learned absolute positions),
# and whether their positions count from the padding token's id, as fairseq's do.
_FAMILY = {
    "BertModel": False,
    "RobertaModel": True,
    "XLMRobertaModel": True,
    "CamembertModel": True,
}
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")


@dataclass(frozen=True, repr=False)
class Affine:
    """A product's weight (out, in) and bias (out); for a layer norm both are (hidden)."""

    weight: Tensor
    bias: Tensor

    def copy(self) -> Affine:
        """The same in memory of its own, so that the model's file need not stay mapped."""
        return Affine(self.weight.clone(), self.bias.clone())


def join(*parts: Affine) -> Affine:
    """Several products of the same operand as one."""
    return Affine(
        torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
    )


@dataclass(frozen=True, repr=False)
class LayerWeights:
    """One transformer layer."""

    query: Affine
    key: Affine
    value: Affine
    attention_out: Affine
    attention_norm: Affine
    up: Affine
    down: Affine
    norm: Affine

    @property
    def products(self) -> tuple[Affine, ...]:
        return (self.query, self.key, self.value, self.attention_out, self.up, self.down)


@dataclass(frozen=True, repr=False)
class EncoderWeights:
    """A whole encoder; the tensors are those of the model, not copies.

    Attributes:
        word: (vocabulary, hidden).
        position: (positions, hidden).
        kind: (token types, hidden).
        padding: the padding token's id where positions are counted from it, else None.
        epsilon: of every layer norm.
    """

    word: Tensor
    position: Tensor
    kind: Tensor
    norm: Affine
    layers: tuple[LayerWeights, ...]
    heads: int
    activation: str
    epsilon: float
    padding: int | None

    @property
    def hidden(self) -> int:
        return int(self.word.shape[1])


@dataclass(frozen=True, repr=False)
class Reach:
    """The largest magnitude in each channel of the operands of a layer's products, (in)."""

    qkv: Tensor
    out: Tensor
    up: Tensor


def why_unknown(model: Any) -> str:  # noqa: ANN401 - any model Infinity can load
    """Why this backbone cannot be replaced, as half a sentence; empty when it can."""
    return next(_oddities(model), "")


def _oddities(model: Any) -> Iterator[str]:  # noqa: ANN401 - any model Infinity can load
    """All that would change the arithmetic.

    Asked for by name: a model that differs in anything else than its sizes runs unchanged
    rather than nearly right.
    """
    name = type(model).__name__
    if name not in _FAMILY or not type(model).__module__.startswith("transformers."):
        yield f"its encoder is {name}"
    config = model.config
    if getattr(config, "position_embedding_type", "absolute") != "absolute":
        yield f"its positions are {config.position_embedding_type}"
    if config.hidden_act not in ACTIVATIONS:
        yield f"its activation is {config.hidden_act}"
    if config.is_decoder or config.add_cross_attention:
        yield "it is a decoder"
    if config.output_hidden_states or config.output_attentions:
        yield "it returns the states of every layer"
    if any(layer.attention.pruned_heads for layer in model.encoder.layer):
        yield "some of its attention heads are pruned"
    if {(p.device.type, p.dtype) for p in model.parameters()} != {("cpu", torch.float32)}:
        yield "its weights are not float32 on the CPU"
    if not all(type(layer.output.dense) is nn.Linear for layer in model.encoder.layer):
        yield "its products were replaced already"


def read(model: Any) -> EncoderWeights:  # noqa: ANN401 - any model that why_unknown() let pass
    """The tensors of a model for which ``why_unknown`` is empty."""
    embeddings = model.embeddings
    return EncoderWeights(
        word=embeddings.word_embeddings.weight.detach(),
        position=embeddings.position_embeddings.weight.detach(),
        kind=embeddings.token_type_embeddings.weight.detach(),
        norm=_affine(embeddings.LayerNorm),
        layers=tuple(_layer(layer) for layer in model.encoder.layer),
        heads=model.config.num_attention_heads,
        activation=model.config.hidden_act,
        epsilon=model.config.layer_norm_eps,
        padding=embeddings.padding_idx if _FAMILY[type(model).__name__] else None,
    )


def _layer(layer: Any) -> LayerWeights:  # noqa: ANN401 - BertLayer and its copies
    attention = layer.attention
    return LayerWeights(
        query=_affine(attention.self.query),
        key=_affine(attention.self.key),
        value=_affine(attention.self.value),
        attention_out=_affine(attention.output.dense),
        attention_norm=_affine(attention.output.LayerNorm),
        up=_affine(layer.intermediate.dense),
        down=_affine(layer.output.dense),
        norm=_affine(layer.output.LayerNorm),
    )


def _affine(module: Any) -> Affine:  # noqa: ANN401 - nn.Linear or nn.LayerNorm
    return Affine(module.weight.detach(), module.bias.detach())
