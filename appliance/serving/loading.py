"""Models from the cache, loaded by Infinity and run by the padding-free encoder."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infinity_emb import EngineArgs
from infinity_emb.inference import select_model
from infinity_emb.primitives import Device, Dtype, EmbeddingDtype, InferenceEngine

from appliance.errors import ApplianceError
from appliance.serving import foreign, weights
from appliance.serving.config import ENV_FILE, ModelSource, ServingConfig
from appliance.serving.encoder import accelerate
from appliance.serving.metrics import Metrics
from appliance.serving.models import TASKS, Served
from appliance.serving.passes import Passes

log = logging.getLogger("appliance.serving")

# Where a model's files declare the smaller sizes of its vectors.
_DECLARATIONS = ("config.json", "config_sentence_transformers.json")
# The encoder makes these two itself, from float32 weights.
_OURS = ("bfloat16", "int8")
_MATRYOSHKA = ("matryoshka_dimensions", "matryoshka_dims")


def load(
    config: ServingConfig,
    source: ModelSource,
    passes: Passes,
    metrics: Metrics,
    suspect: Callable[[], None],
) -> Served:
    """One model, ready to run; the rest as ``Served`` takes it.

    Raises:
        ApplianceError: it is not in the cache, cannot be loaded, or does nothing with text.
    """
    started = time.monotonic()
    snapshot = config.snapshot(source)
    weights.check_readable(snapshot, source.repo)
    if not config.trust_remote_code:
        foreign.refuse(snapshot, source.repo)
    if not weights.present(snapshot, allow_pickle=config.allow_pickle):
        raise weights.absent(source.repo)
    try:
        [model], _, _ = select_model(engine_args(config, snapshot, source))
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ApplianceError(
            f"The model {source.repo} cannot be loaded: {reason}",
            f"Choose another model in {ENV_FILE}, or let its code run (user guide, step 10).",
        ) from error
    if not set(TASKS) & set(model.capabilities):
        raise ApplianceError(
            f"The model {source.repo} does not embed, rank or classify text.",
            f"Choose another model in {ENV_FILE}.",
        )
    log.info("%s: %s", source.served_name, accelerate(model))
    metrics.load.labels(source.served_name).set(time.monotonic() - started)
    return Served(
        source.served_name,
        model,
        passes,
        metrics,
        suspect=suspect,
        matryoshka=matryoshka(snapshot),
    )


def engine_args(config: ServingConfig, snapshot: Path, source: ModelSource) -> EngineArgs:
    """Infinity's description of a model: on the CPU, no full-batch warm-up.

    Given the folder instead of the id, no library looks the id up on the hub.
    """
    return EngineArgs(
        model_name_or_path=str(snapshot),
        served_model_name=source.served_name,
        trust_remote_code=config.trust_remote_code,
        engine=InferenceEngine.torch,
        device=Device.cpu,
        dtype=Dtype(config.dtype if config.dtype not in _OURS else "float32"),
        embedding_dtype=EmbeddingDtype.float32,
        bettertransformer=False,
        model_warmup=False,
        compile=False,
    )


def matryoshka(snapshot: Path) -> tuple[int, ...]:
    """The sizes to which the model's configuration says its vectors can be cut."""
    sizes: set[int] = set()
    for name in _DECLARATIONS:
        path = snapshot / name
        declared: Any = json.loads(path.read_text()) if path.is_file() else {}
        for key in _MATRYOSHKA:
            values = declared.get(key) or []
            sizes.update(size for size in values if isinstance(size, int) and size > 0)
    return tuple(sorted(sizes))
