"""The short way from token ids to vectors gives what Infinity's own steps give."""

# ruff: noqa: ANN401 - Infinity's models have no common type that says what is used here
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_support import infer, load, passages, pool, save_bert, save_roberta, worst_loss

from appliance.serving.encoder import accelerate
from appliance.serving.encoder_embedder import embedder_of
from appliance.serving.encoder_tokens import tokens_of
from appliance.serving.encoder_tuning import Choice

# The literal padding token is text, which fairseq's positions do not count.
TEXTS = ["", "<pad> [PAD] in the <pad> middle", "same", "size", *passages(30, seed=5)]
CHUNK = 96


def short_way(folder: Path, half: int = 0) -> Any:
    model = load(folder)
    accelerate(model, choice=Choice("packed", CHUNK, half))
    tokens = tokens_of(model)
    assert tokens is not None
    return embedder_of(model, tokens), tokens


def with_types(pieces: list[Any]) -> list[Any]:
    """Every other piece's second half is of type 1, which a single text's never is here."""
    for piece in pieces[::2]:
        piece[1, piece.shape[1] // 2 :] = 1
    return pieces


@pytest.mark.parametrize("mode", ["cls", "mean"])
@pytest.mark.parametrize("kind", ["BertModel", "RobertaModel", "XLMRobertaModel"])
def test_vectors_are_those_of_infinitys_steps(tmp_path: Path, kind: str, mode: str) -> None:
    folder = save_bert(tmp_path) if kind == "BertModel" else save_roberta(tmp_path, kind)
    pool(folder, **{f"pooling_mode_{mode}_token{'s' if mode == 'mean' else ''}": True})
    embed, tokens = short_way(folder)
    assert embed is not None
    pieces, lengths = tokens.split(TEXTS)
    assert sum(lengths) > 3 * CHUNK, "several chunks"
    ours = embed(pieces)
    assert worst_loss(ours, infer(load(folder), TEXTS)) < 1e-10
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, rtol=1e-6)
    # One at a time, as queries come.
    alone = np.concatenate([embed([piece]) for piece in pieces[:6]])
    assert worst_loss(alone, ours[:6]) < 1e-10


def test_a_query_through_half_precision_weights_is_infinitys(tmp_path: Path) -> None:
    folder = pool(save_bert(tmp_path), pooling_mode_mean_tokens=True)
    embed, tokens = short_way(folder, half=56)
    full, _ = short_way(folder)
    pieces, lengths = tokens.split(TEXTS)
    short = [piece for piece, length in zip(pieces, lengths, strict=True) if length <= 56]
    ours, exact = (np.concatenate([way([piece]) for piece in short]) for way in (embed, full))
    assert worst_loss(ours, exact) < 1e-6
    assert not np.array_equal(ours, exact), "half precision was not used"


def test_token_types_are_read_where_the_model_has_them(tmp_path: Path) -> None:
    folder = pool(save_bert(tmp_path), pooling_mode_mean_tokens=True)
    embed, tokens = short_way(folder)
    plain = embed(tokens.split(TEXTS)[0])
    typed = with_types(tokens.split(TEXTS)[0])
    stock = load(folder)
    expected = stock.encode_post(stock.encode_core(tokens.features(typed)))
    assert worst_loss(embed(typed), expected) < 1e-10
    assert worst_loss(plain[::2], np.asarray(expected)[::2]) > 1e-6, "types make a difference"


@pytest.mark.parametrize(
    "modes",
    [
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
        {"pooling_mode_mean_sqrt_len_tokens": True},
    ],
)
def test_other_poolings_go_infinitys_way(tmp_path: Path, modes: dict[str, bool]) -> None:
    assert short_way(pool(save_bert(tmp_path), **modes))[0] is None


def test_stock_encoders_and_rerankers_go_infinitys_way(tmp_path: Path) -> None:
    model = load(pool(save_bert(tmp_path / "stock"), pooling_mode_cls_token=True))
    tokens = tokens_of(model)
    assert tokens is not None
    assert embedder_of(model, tokens) is None
    reranker = save_bert(tmp_path / "ranks", "BertForSequenceClassification", num_labels=1)
    assert short_way(reranker)[0] is None


def test_a_module_after_the_pooling_is_not_passed_over(tmp_path: Path) -> None:
    model = load(pool(save_bert(tmp_path), pooling_mode_mean_tokens=True))
    accelerate(model, choice=Choice("packed", CHUNK))
    tokens = tokens_of(model)
    assert tokens is not None
    assert embedder_of(model, tokens) is not None
    model.normalize_embeddings = False
    assert embedder_of(model, tokens) is None
    model.normalize_embeddings = True
    model.add_module("3", torch.nn.Identity())
    assert embedder_of(model, tokens) is None


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_repositorys_own_module_is_not_passed_over(tmp_path: Path, index: int) -> None:
    model = load(pool(save_bert(tmp_path), pooling_mode_mean_tokens=True))
    accelerate(model, choice=Choice("packed", CHUNK))
    tokens = tokens_of(model)
    assert tokens is not None
    theirs = model[index]
    theirs.__class__ = type(type(theirs).__name__, (type(theirs),), {"__module__": "theirs"})
    assert embedder_of(model, tokens) is None
