"""Models small enough to make in a test, and real text, for the encoder's tests."""

# ruff: noqa: ANN401 - Infinity's models have no common type that says what is used here
from __future__ import annotations

import importlib
import json
import logging
import random
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from infinity_emb.args import EngineArgs
from infinity_emb.inference.select_model import select_model
from infinity_emb.primitives import Device

from machine.model import stand_in

# Neither describes its types to a strict checker.
transformers: Any = importlib.import_module("transformers")
tokenizers: Any = importlib.import_module("tokenizers")

WORDS = " ".join(topics.values()).split()  # 70,000 words of English prose on Python
BERT_SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
logging.getLogger("infinity_emb").setLevel(logging.ERROR)


def minilm() -> Path:
    """The folder with all-MiniLM-L6-v2's real weights, the model that the local image may serve."""
    return stand_in().files


def passages(count: int, *, seed: int = 0, mean: float = 3.5, longest: int = 300) -> list[str]:
    """Real text, its lengths lognormal in words."""
    draw = random.Random(seed)  # noqa: S311 - test data, not a secret
    texts = []
    for _ in range(count):
        words = max(1, min(longest, int(draw.lognormvariate(mean, 1.0))))
        start = draw.randrange(len(WORDS) - words)
        texts.append(" ".join(WORDS[start : start + words]))
    return texts


def load(folder: Path) -> Any:
    """What Infinity itself loads from a folder."""
    arguments = EngineArgs(
        model_name_or_path=str(folder),
        device=Device.cpu,
        bettertransformer=False,
        model_warmup=False,
    )
    return select_model(arguments)[0][0]


def infer(model: Any, inputs: list[Any]) -> Any:
    """Infinity's three steps, as its own worker calls them."""
    return model.encode_post(model.encode_core(model.encode_pre(inputs)))


def worst_loss(ours: npt.NDArray[np.float32], stock: npt.NDArray[np.float32]) -> float:
    """The largest 1 - cosine over the rows, computed in double precision."""
    a, b = ours.astype(np.float64), stock.astype(np.float64)
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return float((1 - cosine).max())


def save_bert(folder: Path, kind: str = "BertModel", **changes: Any) -> Path:
    """A random BERT with MiniLM's tokenizer; the init is wide, so that attention matters."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm(), model_max_length=128)
    sizes = {
        **BERT_SIZES,
        "vocab_size": len(tokenizer),
        "intermediate_size": 128,
        "max_position_embeddings": 128,
        "initializer_range": 0.2,
    }
    config = transformers.BertConfig(**{**sizes, **changes})
    return _save(folder, getattr(transformers, kind)(config), tokenizer)


def save_roberta(folder: Path, kind: str, **changes: Any) -> Path:
    """A random RoBERTa or XLM-R with a byte-level tokenizer trained on the prose."""
    backend = tokenizers.ByteLevelBPETokenizer()
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend.train_from_iterator(WORDS[:20000], vocab_size=800, special_tokens=names)
    inner = backend._tokenizer
    inner.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        model_max_length=128,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )
    family = "XLMRoberta" if kind.startswith("XLM") else "Roberta"
    sizes = {
        **BERT_SIZES,
        "vocab_size": 800,
        "intermediate_size": 128,
        "pad_token_id": 1,
        "max_position_embeddings": 130,
        "type_vocab_size": 1,
        "initializer_range": 0.2,
    }
    config = getattr(transformers, f"{family}Config")(**{**sizes, **changes})
    return _save(folder, getattr(transformers, kind)(config), tokenizer)


def pool(folder: Path, **modes: bool) -> Path:
    """Write sentence-transformers' description of a pooling beside a saved model."""
    steps = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(steps.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 120}))
    (folder / "1_Pooling").mkdir()
    width = json.loads((folder / "config.json").read_text())["hidden_size"]
    settings = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": False, **modes}
    (folder / "1_Pooling/config.json").write_text(json.dumps(settings))
    return folder


def _save(folder: Path, model: Any, tokenizer: Any) -> Path:
    with torch.no_grad():  # biases and norms are 0 and 1 in a new model: a mix-up would not show
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape) * 0.1)
            assert parameter.isfinite().all(), name
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
