"""Models from the cache, loaded by Infinity."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError
from appliance.serving.config import ModelSource, ServingConfig

if TYPE_CHECKING:
    from infinity_emb import EngineArgs

log = logging.getLogger("appliance.serving")


def engine_args(config: ServingConfig, source: ModelSource) -> EngineArgs:
    """Infinity's description of one model: CPU, no remote code, no full-batch warm-up."""
    from infinity_emb import EngineArgs  # noqa: PLC0415 - costs seconds; fetch must not pay them

    snapshot = source.snapshot(config.hub)
    if snapshot is None:
        raise ApplianceError(
            f"The model {source.repo} is not in the cache {config.hub}.",
            "`systemctl restart infinity.service` downloads it, given outbound HTTPS to "
            "huggingface.co; `journalctl -u infinity-model` says what went wrong.",
        )
    return EngineArgs(
        model_name_or_path=source.repo,
        revision=source.revision or None,
        served_model_name=source.served_name,
        trust_remote_code=False,
        engine="torch",
        device="cpu",
        # The encoder makes these two itself, from float32 weights.
        dtype="float32" if config.dtype in ("bfloat16", "int8") else config.dtype,
        embedding_dtype="float32",
        bettertransformer=False,
        model_warmup=False,
        compile=False,
    )


def accelerate(model: object) -> str:
    """Swap in the padding-free encoder where it knows the model; a sentence for the log."""
    if importlib.util.find_spec("appliance.serving.encoder") is None:
        return "The stock encoder runs this model."
    encoder = importlib.import_module("appliance.serving.encoder")
    return str(encoder.accelerate(model))
