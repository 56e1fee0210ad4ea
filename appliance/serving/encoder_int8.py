"""What the eight-bit products must know of a model: how far its operands reach."""

from __future__ import annotations

from typing import Any

import torch

from appliance.serving.encoder_forward import Encoder
from appliance.serving.encoder_kernels import Recorder
from appliance.serving.encoder_weights import EncoderWeights, Reach

# Which channels are large is a property of the model: a few texts of different kinds show it.
_SAMPLES = (
    "The quick brown fox jumps over the lazy dog; prices rose by 12% in 2021, said Dr. Smith.",
    "How do I reset my password?",
    "Water boils at 100 degrees Celsius at sea level.",
    "def add(a, b):\n    return a + b  # https://example.org/path?x=1",
    "An embedding maps words to vectors, so that what means the same lies close together.",
    "hello",
    "Der schnelle braune Fuchs springt \u00fcber den Hund. \u00bfD\u00f3nde est\u00e1 el tren?",
    "Section 4.2(b): the tenant shall, within 30 (thirty) days, notify the owner in writing.",
)


def measure_reaches(weights: EncoderWeights, tokenizer: Any) -> list[Reach]:  # noqa: ANN401 - transformers'
    """The reach of every layer's operands over some texts, in float32."""
    encoder = Encoder(weights, "recorder", first_token_only=False)
    start = 0 if weights.padding is None else weights.padding + 1
    with torch.inference_mode():
        for text in _SAMPLES:
            ids = torch.tensor(tokenizer(text)["input_ids"])
            positions = torch.arange(start, start + len(ids))
            # Four of a kind: a size that needs no filler, whose zeros are no text.
            encoder(ids.repeat(4), positions.repeat(4), None, [len(ids)] * 4)
    return [
        Reach(*(each.reach.clone() for each in layer.products() if isinstance(each, Recorder)))
        for layer in encoder.layers
    ]
