"""The padding-free encoder in the place of a transformers backbone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from appliance.serving.encoder_forward import Encoder


class States(tuple[Tensor | None, ...]):
    """What transformers' ModelOutput is to its readers: a tuple that also answers by name."""

    __slots__ = ()

    @property
    def last_hidden_state(self) -> Tensor | None:
        return self[0]

    @property
    def pooler_output(self) -> Tensor | None:
        return self[1] if len(self) > 1 else None

    hidden_states = None
    attentions = None


class PaddingFree(nn.Module):
    """Takes a padded batch, computes it without its padding, and gives it back padded.

    So stock poolings, classification heads and Infinity's steps stay as they are; embedders that
    pool simply go round all of them, see ``encoder_embedder``.
    """

    def __init__(
        self,
        stock: Any,  # noqa: ANN401 - transformers' base class
        encoder: Encoder,
        *,
        pooled: bool,
        chunk: int,
        sentence: str = "",
    ) -> None:
        """Keep of the stock model what is read besides its output.

        Args:
            stock: the model to replace; its layers are not kept alive.
            encoder: what computes instead.
            pooled: whether the output of the model's own pooler, if it has one, is read.
            chunk: tokens that go through all layers together.
            sentence: what the log is told of it.
        """
        super().__init__()
        self.config = stock.config
        self.pooler = stock.pooler if pooled else None
        self.dtype, self.device = stock.dtype, stock.device
        self.sentence = sentence
        self.encoder, self.chunk = encoder, chunk

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **_: object,
    ) -> States:
        """Hidden states of a batch.

        Args:
            input_ids: (texts, longest), int64.
            attention_mask: the same shape; 0 where a token is padding.
            token_type_ids: the same shape.

        Returns:
            (texts, longest, hidden), zero at padding; (texts, 1, hidden) where only the first
            token is wanted; and what the model's pooler makes of it, where that is read.
        """
        texts, longest = input_ids.shape
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        positions = self._positions(input_ids)
        kinds = token_type_ids if token_type_ids is not None and token_type_ids.any() else None
        lengths = mask.sum(1).tolist()
        if sum(lengths) == texts * longest <= self.chunk:
            states = self._unpadded(input_ids, positions, kinds, lengths)
        else:
            states = self._padded(input_ids, positions, kinds, lengths, mask)
        return States((states,) if self.pooler is None else (states, self.pooler(states)))

    def _unpadded(
        self, ids: Tensor, positions: Tensor, kinds: Tensor | None, lengths: list[int]
    ) -> Tensor:
        """A batch without padding, which a single query is: nothing to pick, nothing to spread."""
        kinds = None if kinds is None else kinds.flatten()
        states = self.encoder(ids.flatten(), positions.flatten(), kinds, lengths)
        return states.view(len(lengths), -1, self.encoder.hidden)

    def _padded(
        self,
        ids: Tensor,
        positions: Tensor,
        kinds: Tensor | None,
        lengths: list[int],
        mask: Tensor,
    ) -> Tensor:
        texts, longest = ids.shape
        width = 1 if self.encoder.first_token_only else longest
        out = torch.zeros(texts * width, self.encoder.hidden)
        for rows in chunks(lengths, self.chunk):
            index = torch.tensor(rows)
            row, column = mask[index].nonzero(as_tuple=True)
            flat = index[row] * longest + column
            states = self.encoder(
                ids.flatten()[flat],
                positions.flatten()[flat],
                None if kinds is None else kinds.flatten()[flat],
                [lengths[i] for i in rows],
            )
            out[index if self.encoder.first_token_only else flat] = states
        return out.view(texts, width, -1)

    def _positions(self, ids: Tensor) -> Tensor:
        """Rows of the position table, (texts, longest), as the stock model numbers them."""
        padding = self.encoder.padding
        if padding is None:
            return torch.arange(ids.shape[1]).expand(ids.shape)
        real = ids.ne(padding).long()
        return real.cumsum(1) * real + padding


def chunks(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Sequences in batches of about equal cost, shortest first, so that equal lengths meet.

    Args:
        lengths: tokens of each sequence.
        tokens: the most a batch holds, unless a single sequence is longer.

    Yields:
        Indices into ``lengths``; empty sequences are left out.
    """
    batch: list[int] = []
    total = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if lengths[i] == 0:
            continue
        if batch and total + lengths[i] > tokens:
            yield batch
            batch, total = [], 0
        batch.append(i)
        total += lengths[i]
    if batch:
        yield batch
