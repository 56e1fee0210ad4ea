"""What a model's files would have Python import, found before the model is loaded.

`trust_remote_code=False` does not cover it: given a folder, sentence-transformers runs a module
class that lies in it, and imports and calls whatever installed name the configuration gives as
an activation function (SentenceTransformer._load_module_class_from_ref, models/Dense.py,
models/Asym.py and cross_encoder/CrossEncoder.py of 3.4.1).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from appliance.errors import ApplianceError
from appliance.serving.config import ENV_FILE

# Asym, WordEmbeddings and CLIPModel are left out: their own configurations name classes in turn.
_MODULES = frozenset(
    f"sentence_transformers.models.{name}"
    for name in (
        *("BoW", "CNN", "Dense", "Dropout", "LayerNorm", "LSTM", "Normalize", "Pooling"),
        *("StaticEmbedding", "Transformer", "WeightedLayerPooling"),
    )
)
_ACTIVATIONS = "torch.nn."
_ACTIVATION_KEYS = ("activation_function", "sbert_ce_default_activation_function")


def refuse(snapshot: Path, repo: str) -> None:
    """Let only modules of sentence-transformers and activations of PyTorch pass.

    Args:
        snapshot: the folder with the model's files.
        repo: the model's id, for the message.

    Raises:
        ApplianceError: the model names something else, or its configuration is not readable.
    """
    try:
        modules = _read(snapshot / "modules.json") or []
        named = [str(module["type"]) for module in modules if module["type"] not in _MODULES]
        for folder in {"", *(str(module["path"]) for module in modules)}:
            named += _activations(_read(snapshot / folder / "config.json") or {})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ApplianceError(
            f"The model {repo} cannot be loaded: its configuration is not whole.",
            f"Choose another model in {ENV_FILE}.",
        ) from error
    if named:
        raise ApplianceError(
            f"The model {repo} wants to import {', '.join(sorted(named))}.",
            f"Choose another model in {ENV_FILE}, or let its code run (user guide, step 10).",
        )


def _activations(config: dict[str, Any]) -> list[str]:
    names = [config.get(key) for key in _ACTIVATION_KEYS]
    return [str(name) for name in names if name and not str(name).startswith(_ACTIVATIONS)]


def _read(path: Path) -> Any:  # noqa: ANN401 - JSON
    return json.loads(path.read_text("utf-8")) if path.is_file() else None
