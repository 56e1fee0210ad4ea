"""From token ids to vectors without a padded batch between: the embedders that pool simply.

Infinity's own steps pad, mask, spread, pool and normalise; for a query that is a tenth of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from appliance.serving.encoder_forward import Encoder
from appliance.serving.encoder_layout import grouped, split
from appliance.serving.encoder_module import PaddingFree, chunks
from appliance.serving.encoder_tokens import Encoded, Tokens

Ids = npt.NDArray[np.int64]

_KNOWN = "sentence_transformers."


class Embedder:
    """What Infinity's encode_core and encode_post make of a batch, for CLS and mean pooling."""

    def __init__(self, encoder: Encoder, chunk: int, *, kinds: bool) -> None:
        """Keep what a batch goes through.

        Args:
            encoder: with ``first_token_only`` where CLS is pooled, else the mean is.
            chunk: tokens that go through all layers together.
            kinds: whether the model reads token types.
        """
        self._encoder, self._chunk, self._kinds = encoder, chunk, kinds

    def __call__(self, pieces: Sequence[Ids]) -> npt.NDArray[np.float32]:
        """Vectors of length 1, (texts, hidden), of ids and types, (2, tokens) each."""
        lengths = [piece.shape[1] for piece in pieces]
        if len(pieces) == 1 and lengths[0]:  # a query: there is no order to bring back
            out = self._pooled(pieces, lengths)
        else:
            out = torch.zeros(len(pieces), self._encoder.hidden)
            for rows in chunks(lengths, self._chunk):
                out[rows] = self._pooled([pieces[i] for i in rows], [lengths[i] for i in rows])
        vectors: npt.NDArray[np.float32] = functional.normalize(out).numpy()
        return vectors

    def _pooled(self, pieces: Sequence[Ids], lengths: Sequence[int]) -> Tensor:
        """Of texts by length, (texts, hidden)."""
        flat = np.concatenate(pieces, axis=1)
        positions = torch.from_numpy(np.concatenate([self._positions(ids) for ids, _ in pieces]))
        kinds = torch.from_numpy(flat[1]) if self._kinds and flat[1].any() else None
        states = self._encoder(torch.from_numpy(flat[0]), positions, kinds, lengths)
        if self._encoder.first_token_only:
            return states
        means = [part.view(*size, -1).mean(1) for *size, part in split(states, grouped(lengths))]
        return torch.cat(means)

    def _positions(self, ids: Ids) -> Ids:
        """Rows of the position table, (tokens), as the stock model numbers them."""
        padding = self._encoder.padding
        if padding is None:
            return np.arange(len(ids))
        real = ids != padding
        positions: Ids = real.cumsum() * real + padding
        return positions


def embedder_of(model: Any, tokens: Tokens) -> Embedder | None:  # noqa: ANN401 - Infinity's models
    """The short way through an accelerated model; None where Infinity's steps do more."""
    if type(model).__name__ != "SentenceTransformerPatched" or not isinstance(tokens, Encoded):
        return None
    first, *rest = model
    backbone = getattr(first, "auto_model", None)
    if not isinstance(backbone, PaddingFree) or not rest:
        return None
    if not all(type(module).__module__.startswith(_KNOWN) for module in model):
        return None  # a repository's own module, whatever its name
    pooling, *after = rest
    pools = {"cls": True, "mean": False}  # whether the first token is all that is read
    if (
        type(pooling).__name__ != "Pooling"
        or pools.get(pooling.get_pooling_mode_str()) is not backbone.encoder.first_token_only
        or any(type(module).__name__ != "Normalize" for module in after)
        or not model.normalize_embeddings
    ):
        return None
    return Embedder(backbone.encoder, backbone.chunk, kinds=tokens.kinds)
