"""The padding-free encoder gives the vectors and scores of the model it replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_support import (
    infer,
    load,
    minilm,
    passages,
    pool,
    save_bert,
    save_roberta,
    worst_loss,
)

from appliance.serving.encoder import accelerate
from appliance.serving.encoder_tuning import Choice

LOSS = 1e-5  # the promise is a cosine of 0.99999; float32 keeps 1e-12
COMPOSITIONS = {
    "one short": ["What is the capital of France?"],
    "one empty": [""],
    "one longer than the model": [" ".join(passages(8, seed=1, mean=5.0))],
    "all of one length": ["the same sentence again"] * 9,
    "of mixed length": passages(32, seed=2),
    "longest first": sorted(passages(16, seed=3), key=len, reverse=True),
    "one long among short": ["a", *passages(1, seed=4, mean=5.5), "b", "", "two words"],
    "more than a chunk": passages(60, seed=5),
    "padding spelled out": ["a <pad> b [PAD] c", "<pad>", "[PAD] [PAD] x", "plain"],
}
SMALL = Choice("packed", 256)


def both(folder: Path, inputs: dict[str, list[Any]], choice: Choice = SMALL) -> dict[str, Any]:
    """Results before and after the encoder is replaced, for each composition."""
    torch.manual_seed(0)
    model = load(folder)
    stock = {name: infer(model, items) for name, items in inputs.items()}
    said = accelerate(model, choice=choice)
    assert said.startswith("The padding-free encoder runs"), said
    return {name: (infer(model, items), stock[name]) for name, items in inputs.items()}


def assert_same_vectors(results: dict[str, Any]) -> None:
    losses = {name: worst_loss(ours, stock) for name, (ours, stock) in results.items()}
    assert {name: loss for name, loss in losses.items() if loss > LOSS} == {}
    assert all(ours.shape == stock.shape for ours, stock in results.values())


@pytest.mark.parametrize("half", [0, 64, 512])
@pytest.mark.parametrize("kernel", ["packed", "plain"])
def test_minilm_embeds_as_stock_does(kernel: str, half: int) -> None:
    assert_same_vectors(both(minilm(), COMPOSITIONS, Choice(kernel, 512, half)))


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_bert_with_cls_pooling_embeds_as_stock_does(tmp_path: Path, activation: str) -> None:
    folder = pool(save_bert(tmp_path, hidden_act=activation), pooling_mode_cls_token=True)
    assert_same_vectors(both(folder, COMPOSITIONS))


@pytest.mark.parametrize("mode", ["mean_tokens", "max_tokens", "lasttoken", "weightedmean_tokens"])
def test_every_pooling_sees_the_same_states(tmp_path: Path, mode: str) -> None:
    folder = pool(save_bert(tmp_path), **{f"pooling_mode_{mode}": True})
    assert_same_vectors(both(folder, COMPOSITIONS))


@pytest.mark.parametrize("kind", ["RobertaModel", "XLMRobertaModel"])
def test_roberta_embeds_as_stock_does(tmp_path: Path, kind: str) -> None:
    assert_same_vectors(both(save_roberta(tmp_path, kind), COMPOSITIONS))


def test_shape_of_bge_small_embeds_as_stock_does(tmp_path: Path) -> None:
    folder = save_bert(
        tmp_path,
        hidden_size=384,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=512,
        initializer_range=0.05,
    )
    pool(folder, pooling_mode_cls_token=True)
    assert_same_vectors(both(folder, COMPOSITIONS, Choice("packed", 512, 64)))


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "XLMRoberta"])
def test_reranker_scores_as_stock_does(tmp_path: Path, kind: str) -> None:
    pairs = {
        name: [("which passage answers this", text) for text in texts]
        for name, texts in COMPOSITIONS.items()
    }
    save = save_bert if kind == "Bert" else save_roberta
    folder = save(tmp_path, f"{kind}ForSequenceClassification", num_labels=1)
    for name, (ours, stock) in both(folder, pairs).items():
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "XLMRoberta"])
def test_classifier_labels_as_stock_does(tmp_path: Path, kind: str) -> None:
    save = save_bert if kind == "Bert" else save_roberta
    folder = save(tmp_path, f"{kind}ForSequenceClassification", num_labels=4)
    for name, (ours, stock) in both(folder, COMPOSITIONS).items():
        for mine, theirs in zip(ours, stock, strict=True):
            scores = {entry["label"]: entry["score"] for entry in theirs}
            assert {e["label"]: e["score"] for e in mine} == pytest.approx(scores, abs=1e-4), name


def test_scores_differ_between_texts(tmp_path: Path) -> None:
    """The comparisons above would pass for a model whose output is constant."""
    model = load(save_roberta(tmp_path, "RobertaForSequenceClassification", num_labels=1))
    accelerate(model, choice=SMALL)
    scores = infer(model, [("query", text) for text in COMPOSITIONS["of mixed length"]])
    assert np.std(scores) > 1e-2
