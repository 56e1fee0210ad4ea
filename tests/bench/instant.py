"""A server whose model answers at once, so that what is left is the way there and back.

    python -m tests.bench.instant stock ARGUMENTS…   Infinity's own command
    python -m tests.bench.instant ours               the appliance's server

Everything but the forward pass is as it always is: HTTP, checks, tokens, queues, answers.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from appliance.serving import deferred, encoder_tuning, server
from appliance.serving.encoder_forward import Encoder


def ours_at_once() -> None:
    """Give every text the same vector, made beforehand, in place of the encoder's pass."""
    vector = torch.nn.functional.normalize(torch.randn(1, 384))

    def run(encoder: Encoder, ids: torch.Tensor, *batch: Any) -> torch.Tensor:  # noqa: ANN401 - the rest
        lengths = batch[-1]
        return vector.expand(len(lengths) if encoder.first_token_only else len(ids), -1)

    kind: Any = Encoder
    kind.__call__ = run
    # A measurement of it would be remembered for servers whose model does take time.
    tuning: Any = encoder_tuning
    tuning.choose = lambda *_: encoder_tuning.DEFAULT


def stock_at_once() -> None:
    """The same in place of Infinity's forward pass."""
    # It describes no types to a strict checker.
    name = "infinity_emb.transformer.embedder.sentence_transformer"
    kind: Any = importlib.import_module(name).SentenceTransformerPatched
    vector = torch.nn.functional.normalize(torch.randn(1, 384))

    def encode_core(_: Any, features: Any) -> torch.Tensor:  # noqa: ANN401 - Infinity's
        return vector.repeat(len(features["input_ids"]), 1)

    kind.encode_core = encode_core


def main() -> int:
    which, *arguments = sys.argv[1:]
    server.prepare_environment()
    if which == "ours":
        deferred.defer()
        ours_at_once()
        return server.main()
    stock_at_once()
    sys.argv = ["infinity_emb", *arguments]
    importlib.import_module("infinity_emb.cli").cli()
    return 0


if __name__ == "__main__":
    sys.exit(main())
