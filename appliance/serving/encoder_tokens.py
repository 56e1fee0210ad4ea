"""From texts to the encoder's input, without padding until a batch is formed."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

# Above this a tokenizer's maximum means "none" (transformers writes 1e30).
_NO_LIMIT = 10**9


class Tokens(Protocol):
    """How a model reads texts."""

    def split(self, inputs: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Each input as a piece that ``features`` takes, and its number of tokens."""

    def read(self, inputs: Sequence[Any]) -> tuple[list[Any], list[int], list[bool]]:
        """The same, and for each input whether it was longer than the model's window."""

    def features(self, pieces: Sequence[Any]) -> Any:  # noqa: ANN401 - what encode_core takes
        """What the model's ``encode_core`` takes for these pieces together."""


class Encoded:
    """Texts, or pairs of them, as token ids: what ``encode_pre`` gives, once per text.

    Stock Infinity tokenizes a batch and pads it; here a text is tokenized once, on arrival,
    because its length decides which batch it goes into.
    """

    def __init__(self, tokenizer: Any, limit: int | None, *, lower: bool = False) -> None:  # noqa: ANN401
        """Copy the fast tokenizer, so that the model's own keeps its settings.

        Args:
            tokenizer: a transformers fast tokenizer.
            limit: tokens after which a text is cut; None takes the tokenizer's maximum.
            lower: lower the case first.
        """
        self._backend = copy.deepcopy(tokenizer.backend_tokenizer)
        self._backend.no_padding()
        self._backend.no_truncation()
        most = tokenizer.model_max_length if limit is None else limit
        if most < _NO_LIMIT:
            self._backend.enable_truncation(
                max_length=most, strategy="longest_first", direction=tokenizer.truncation_side
            )
        self._padding = tokenizer.pad_token_id
        self.kinds = "token_type_ids" in tokenizer.model_input_names
        self._lower = lower

    def split(self, inputs: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """Token ids and types of each input, (2, tokens) int64."""
        pieces, lengths, _ = self.read(inputs)
        return pieces, lengths

    def read(self, inputs: Sequence[Any]) -> tuple[list[Any], list[int], list[bool]]:
        """The same, and which inputs were cut."""
        # Fast: without the places of tokens in the text, a sixth of the time.
        encodings = self._backend.encode_batch_fast([self._clean(item) for item in inputs])
        pieces = [np.array([e.ids, e.type_ids], dtype=np.int64) for e in encodings]
        cut = [bool(encoding.overflowing) for encoding in encodings]
        return pieces, [piece.shape[1] for piece in pieces], cut

    def features(self, pieces: Sequence[Any]) -> dict[str, Tensor]:
        """The padded batch, (texts, longest) each, that a transformers model takes."""
        shape = (len(pieces), max(piece.shape[1] for piece in pieces))
        ids = np.full(shape, self._padding, dtype=np.int64)
        mask, kinds = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for row, piece in enumerate(pieces):
            length = piece.shape[1]
            ids[row, :length], kinds[row, :length] = piece
            mask[row, :length] = 1
        batch = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        return {**batch, "token_type_ids": torch.from_numpy(kinds)} if self.kinds else batch

    def _clean(self, item: str | tuple[str, str]) -> str | tuple[str, str]:
        if isinstance(item, str):
            return item.strip().lower() if self._lower else item.strip()
        return item[0].strip(), item[1].strip()


class Whole:
    """Texts as they are, for a model that takes nothing else (Infinity's classifier)."""

    def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401 - a transformers fast tokenizer
        self._counter = Encoded(tokenizer, None)

    def split(self, inputs: Sequence[Any]) -> tuple[list[Any], list[int]]:
        return list(inputs), self._counter.split(inputs)[1]

    def read(self, inputs: Sequence[Any]) -> tuple[list[Any], list[int], list[bool]]:
        _, lengths, cut = self._counter.read(inputs)
        return list(inputs), lengths, cut

    def features(self, pieces: Sequence[Any]) -> list[Any]:
        return list(pieces)


def tokens_of(model: Any) -> Tokens | None:  # noqa: ANN401 - any model Infinity can load
    """How this model's texts become tokens; None where only the model itself can say."""
    kind = type(model).__name__
    if kind == "SentenceTransformerPatched":
        first = model[0]
        if type(first).__name__ != "Transformer" or not first.tokenizer.is_fast:
            return None
        return Encoded(first.tokenizer, first.max_seq_length, lower=first.do_lower_case)
    if kind == "CrossEncoderPatched" and model.tokenizer.is_fast:
        return Encoded(model.tokenizer, None)
    if kind == "SentenceClassifier" and model._pipe.tokenizer.is_fast:  # noqa: SLF001 - no other door
        return Whole(model._pipe.tokenizer)  # noqa: SLF001 - the same
    return None
