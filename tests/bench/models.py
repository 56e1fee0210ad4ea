"""The models that are measured, laid out as the model hub's cache lays them out."""

from __future__ import annotations

import importlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine.model import stand_in

_REVISION = "0" * 40
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


@dataclass(frozen=True)
class Model:
    """A model to serve: its id, its sizes, and the tokens of a text that it reads."""

    id: str
    hidden: int
    layers: int
    window: int

    @property
    def flop_per_token(self) -> float:
        """Floating-point operations: two for each weight of a layer (12 h^2), without attention."""
        return 2.0 * 12 * self.hidden**2 * self.layers


BGE = Model("bench/bge-small-shape", 384, 12, 512)
MINILM = Model("sentence-transformers/all-MiniLM-L6-v2", 384, 6, 256)
MODELS = {"bge": BGE, "minilm": MINILM}


def snapshot(home: Path, model: Model) -> Path:
    return home / f"hub/models--{model.id.replace('/', '--')}/snapshots/{_REVISION}"


def lay_out(home: Path, model: Model) -> Path:
    """The place for a model's files below ``home`` (an HF_HOME), as its main revision."""
    folder = snapshot(home, model)
    folder.mkdir(parents=True, exist_ok=True)
    refs = folder.parent.parent / "refs"
    refs.mkdir(exist_ok=True)
    (refs / "main").write_text(_REVISION)
    return folder


def prepare(home: Path) -> None:
    """Write both models below ``home`` (an HF_HOME), unless they are there."""
    for model in MODELS.values():
        folder = snapshot(home, model)
        if (folder / "model.safetensors").is_file():
            continue
        lay_out(home, model)
        if model is MINILM:
            shutil.copytree(_shipped(), folder, dirs_exist_ok=True)
        else:
            _write_bge(folder)


def _shipped() -> Path:
    return stand_in().files


def _write_bge(folder: Path) -> None:
    """bge-small-en-v1.5 to the size: random weights, the real (BERT uncased) tokenizer."""
    transformers: Any = importlib.import_module("transformers")
    for name in _TOKENIZER:
        shutil.copy(_shipped() / name, folder / name)
    config = transformers.BertConfig(
        vocab_size=30522,
        hidden_size=384,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=512,
    )
    transformers.BertModel(config).save_pretrained(folder)
    steps = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {
                    "idx": i,
                    "name": str(i),
                    "path": path,
                    "type": f"sentence_transformers.models.{kind}",
                }
                for i, (path, kind) in enumerate(steps.items())
            ]
        )
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 512}))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling/config.json").write_text(
        json.dumps(
            {
                "word_embedding_dimension": 384,
                "pooling_mode_cls_token": True,
                "pooling_mode_mean_tokens": False,
            }
        )
    )
