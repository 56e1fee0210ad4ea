"""`accelerate`: the padding-free encoder in the place of the one Infinity loaded.

Same vectors (a loss of cosine of 1e-12, of 1e-7 with half-precision weights), a third of the
time on passages of mixed length; a model it does not know stays as it is.
"""

from __future__ import annotations

import gc
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.serving import encoder_tuning, encoder_weights
from appliance.serving.encoder_forward import Encoder
from appliance.serving.encoder_half import fits
from appliance.serving.encoder_int8 import measure_reaches
from appliance.serving.encoder_module import PaddingFree
from appliance.serving.encoder_tuning import Choice

# bfloat16 loses 4e-5 of cosine with MiniLM on real text, four times what the default may:
# it is for who asks. Without these instructions it is five times slower than float32.
_BFLOAT16_FLAGS = frozenset({"amx_bf16", "avx512_bf16"})
# With matrix instructions bfloat16 takes half of float32's time, and FBGEMM's int8, which does not
# use them, more than float32: who asks for eight bits gets the speed, and closer vectors.
_MATRIX_FLAG = "amx_bf16"
# Modules after the pooling that read the pooled vector alone.
_VECTOR_MODULES = ("Dense", "Normalize", "LayerNorm")
_CLASSIFIERS = (
    "BertForSequenceClassification",
    "RobertaForSequenceClassification",
    "XLMRobertaForSequenceClassification",
    "CamembertForSequenceClassification",
)


@dataclass(frozen=True)
class Slot:
    """Where a loaded model keeps its backbone, and what of the states its head reads."""

    owner: Any
    name: str
    first_token_only: bool
    pooled: bool
    tokenizer: Any

    @property
    def backbone(self) -> Any:  # noqa: ANN401 - a transformers model
        return getattr(self.owner, self.name)


def accelerate(model: Any, dtype: str = "", choice: Choice | None = None) -> str:  # noqa: ANN401
    """Replace the encoder inside a model that Infinity loaded.

    Args:
        model: a SentenceTransformerPatched, CrossEncoderPatched or SentenceClassifier in
            float32; any other is left alone. A second call changes nothing.
        dtype: "bfloat16" or "int8" trade accuracy for speed; anything else is float32. From
            the environment's DTYPE when empty.
        choice: kernel and chunk, instead of what this CPU was measured to be fastest with.

    Returns:
        One sentence for the log, on what runs now.
    """
    slot = find_slot(model)
    if slot is None:
        return f"The stock encoder runs this model: {type(model).__name__} is not known."
    if isinstance(slot.backbone, PaddingFree):
        return slot.backbone.sentence
    reason = encoder_weights.why_unknown(slot.backbone)
    if not reason and getattr(slot.tokenizer, "padding_side", "right") != "right":
        reason = "its tokenizer pads on the left"
    if reason:
        return f"The stock encoder runs this model: {reason}."
    weights = encoder_weights.read(slot.backbone)
    chosen = choice or encoder_tuning.choose(weights, encoder_tuning.cache_file())
    # Scores are compared digit by digit, and which weights serve depends on who asks meanwhile.
    if chosen.half and (slot.pooled or not fits(weights)):
        chosen = replace(chosen, half=0)
    wanted = dtype or os.environ.get("DTYPE", "")
    chosen, remark = _with_dtype(chosen, wanted, _cpu_flags())
    reaches = measure_reaches(weights, slot.tokenizer) if chosen.kernel.startswith("int8") else None
    encoder = Encoder(
        weights,
        chosen.kernel,
        first_token_only=slot.first_token_only,
        half=chosen.half,
        reaches=reaches,
    )
    halved = f" (half-precision weights up to {chosen.half})" if chosen.half else ""
    sentence = (
        f"The padding-free encoder runs this model with {chosen.kernel} products, "
        f"{chosen.chunk} tokens at a time{halved}{remark}."
    )
    module = PaddingFree(
        slot.backbone, encoder, pooled=slot.pooled, chunk=chosen.chunk, sentence=sentence
    )
    setattr(slot.owner, slot.name, module)
    # The stock layers are in reference cycles. With the last of their tensors the mapping of
    # the model's file goes too: 80 MB less resident than the packed weights beside it.
    del weights, slot
    gc.collect()
    return sentence


def find_slot(model: Any) -> Slot | None:  # noqa: ANN401 - any model Infinity can load
    """The backbone of one of Infinity's three text models; None for any other model.

    Known by name, so that a server without one of their libraries need not import it.
    """
    kind = type(model).__name__
    if kind == "SentenceTransformerPatched":
        first, *rest = model
        if type(first).__name__ != "Transformer" or not rest:
            return None
        return Slot(
            first,
            "auto_model",
            first_token_only=_reads_first_token(model, rest),
            pooled=False,
            tokenizer=first.tokenizer,
        )
    if kind == "CrossEncoderPatched":
        return _classifier_slot(model.model, model.tokenizer)
    if kind == "SentenceClassifier":
        pipe = model._pipe  # noqa: SLF001 - Infinity keeps its pipeline nowhere else
        return _classifier_slot(pipe.model, pipe.tokenizer)
    return None


def _reads_first_token(model: Any, rest: list[Any]) -> bool:  # noqa: ANN401 - Infinity's embedder
    """Whether CLS pooling is all that reads the token states."""
    pooling, *after = rest
    return (
        not model.mode_colbert
        and type(pooling).__name__ == "Pooling"
        and pooling.get_pooling_mode_str() == "cls"
        and all(type(module).__name__ in _VECTOR_MODULES for module in after)
    )


def _classifier_slot(head: Any, tokenizer: Any) -> Slot | None:  # noqa: ANN401 - transformers' models
    if type(head).__name__ not in _CLASSIFIERS:
        return None
    return Slot(
        head, head.base_model_prefix, first_token_only=True, pooled=True, tokenizer=tokenizer
    )


def _with_dtype(choice: Choice, dtype: str, flags: frozenset[str]) -> tuple[Choice, str]:
    """The choice for the number format asked for, and a remark when it cannot be had."""
    if dtype == "bfloat16" and not flags & _BFLOAT16_FLAGS:
        return choice, "; DTYPE=bfloat16 is ignored, this CPU has no instructions for it"
    if dtype == "int8" and _MATRIX_FLAG in flags:
        remark = "; on this CPU they are faster than DTYPE=int8 would be, and closer"
        return replace(choice, kernel="bfloat16", half=0), remark
    if dtype in ("bfloat16", "int8"):
        return replace(choice, kernel=dtype, half=0), ""
    return choice, ""


def _cpu_flags(info: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    for line in info.read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
