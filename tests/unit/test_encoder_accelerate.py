"""What accelerate() does to models it knows and to those it does not."""

# ruff: noqa: ANN401 - Infinity's models have no common type that says what is used here
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
    save_bert,
    transformers,
    worst_loss,
)

from appliance.serving import encoder, encoder_forward, encoder_tuning, encoder_weights
from appliance.serving.encoder import accelerate
from appliance.serving.encoder_forward import Encoder
from appliance.serving.encoder_tuning import Choice

SMALL = Choice("packed", 256)
TEXTS = ["one", "two of them", *passages(6)]


def assert_untouched(model: Any, holder: Any, reason: str) -> None:
    before, weights = infer(model, TEXTS), holder.auto_model
    said = accelerate(model, choice=SMALL)
    assert said == f"The stock encoder runs this model: {reason}."
    assert holder.auto_model is weights
    np.testing.assert_array_equal(infer(model, TEXTS), before)


def test_unknown_architecture_is_left_alone(tmp_path: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        minilm(), model_input_names=["input_ids", "attention_mask"]
    )
    config = transformers.DistilBertConfig(dim=64, n_heads=4, n_layers=2, hidden_dim=128)
    transformers.DistilBertModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = load(tmp_path)
    assert_untouched(model, model[0], "its encoder is DistilBertModel")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"position_embedding_type": "relative_key"}, "its positions are relative_key"),
        ({"hidden_act": "silu"}, "its activation is silu"),
        ({"is_decoder": True}, "it is a decoder"),
        ({"output_hidden_states": True}, "it returns the states of every layer"),
    ],
)
def test_variant_of_bert_is_left_alone(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    model = load(save_bert(tmp_path, **change))
    assert_untouched(model, model[0], reason)


def test_left_padding_is_left_alone(tmp_path: Path) -> None:
    model = load(save_bert(tmp_path))
    model[0].tokenizer.padding_side = "left"
    assert_untouched(model, model[0], "its tokenizer pads on the left")


def test_half_precision_weights_are_left_alone(tmp_path: Path) -> None:
    model = load(save_bert(tmp_path))
    model.half()
    said = accelerate(model, choice=SMALL)
    assert said == "The stock encoder runs this model: its weights are not float32 on the CPU."


def test_object_that_is_no_model_is_left_alone() -> None:
    said = accelerate(object())
    assert said == "The stock encoder runs this model: object is not known."


def test_second_call_changes_nothing(tmp_path: Path) -> None:
    model = load(save_bert(tmp_path))
    first = accelerate(model, choice=SMALL)
    module = model[0].auto_model
    assert accelerate(model, choice=SMALL) == first
    assert model[0].auto_model is module


def test_original_layers_are_freed(tmp_path: Path) -> None:
    """Two copies of the weights would break the memory bound."""
    model = load(save_bert(tmp_path))
    accelerate(model, choice=SMALL)
    assert sum(parameter.numel() for parameter in model.parameters()) == 0


def test_bfloat16_is_ignored_without_the_instructions() -> None:
    choice, remark = encoder._with_dtype(SMALL, "bfloat16", frozenset({"avx512f"}))
    assert choice == SMALL
    assert "no instructions" in remark


def test_bfloat16_is_taken_with_the_instructions() -> None:
    choice, remark = encoder._with_dtype(SMALL, "bfloat16", frozenset({"amx_bf16"}))
    assert (choice, remark) == (Choice("bfloat16", 256), "")


@pytest.mark.parametrize(
    ("dtype", "flag", "kernel", "loss"),
    [
        ("bfloat16", "amx_bf16", "bfloat16", 1e-3),
        ("int8", "amx_bf16", "bfloat16", 1e-3),
        ("int8", "avx512_bf16", "int8", 5e-3),
        ("int8", "avx2", "int8", 5e-3),
    ],
)
def test_smaller_formats_keep_their_promise_on_real_text(
    dtype: str, flag: str, kernel: str, loss: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "_cpu_flags", lambda: frozenset({flag}))
    texts = passages(48, seed=7)
    model = load(minilm())
    stock = infer(model, texts)
    said = accelerate(model, dtype, choice=SMALL)
    assert f"with {kernel} products" in said
    ours = infer(model, texts)
    assert 0 < worst_loss(ours, stock) <= loss


def test_choice_is_measured_once_and_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = encoder_weights.read(load(save_bert(tmp_path / "model"))[0].auto_model)
    cache = tmp_path / "tuning.json"
    first = encoder_tuning.choose(weights, cache)
    assert first.kernel in ("packed", "plain")
    monkeypatch.setattr(encoder_tuning, "measure", lambda _: pytest.fail("measured again"))
    assert encoder_tuning.choose(weights, cache) == first


def test_very_slow_cpu_is_spared_the_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = encoder_weights.read(load(save_bert(tmp_path / "model"))[0].auto_model)
    monkeypatch.setattr(encoder_tuning, "_SLOW", 0.0)
    monkeypatch.setattr(encoder_tuning, "_half", lambda *_: pytest.fail("measured all the same"))
    assert encoder_tuning.measure(weights) == encoder_tuning.DEFAULT


@pytest.mark.parametrize(
    ("seconds", "most"),
    [
        ({14: 0.9, 28: 0.99, 56: 1.1}, 28),  # worth having, and used as long as it is no slower
        ({14: 0.95, 28: 0.5, 56: 0.5}, 0),  # a query does not gain enough to pay for the memory
        ({14: 0.5, 28: 0.5, 56: 0.5}, 56),
    ],
)
def test_half_precision_weights_have_to_pay_for_a_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], most: int
) -> None:
    weights = encoder_weights.read(load(save_bert(tmp_path / "model"))[0].auto_model)
    races = iter(seconds.values())
    monkeypatch.setattr(encoder_tuning, "_race", lambda *_: {"half": next(races), "full": 1.0})
    encoder = Encoder(weights, "packed", first_token_only=False)
    assert encoder_tuning._half(weights, "packed", encoder) == most


def test_only_products_compiled_for_a_size_are_given_filler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = encoder_weights.read(load(save_bert(tmp_path / "model"))[0].auto_model)
    asked: list[int] = []

    def filler(tokens: int) -> int:
        asked.append(tokens)
        return 0

    monkeypatch.setattr(encoder_forward, "filler", filler)
    encode = Encoder(weights, "packed", first_token_only=False, half=14)
    for tokens in (14, 15):
        encode(torch.ones(tokens, dtype=torch.int64), torch.arange(tokens), None, [tokens])
    assert asked == [15]


@pytest.mark.parametrize("labels", [1, 3])
def test_scores_are_made_with_full_weights(tmp_path: Path, labels: int) -> None:
    """A query's half-precision ones would give one document other digits alone than in a batch."""
    folder = save_bert(tmp_path, "BertForSequenceClassification", num_labels=labels)
    inputs: list[Any] = [("a query", "its answer")] if labels == 1 else ["a short text"]
    ours = load(folder)
    assert "half" not in accelerate(ours, choice=Choice("packed", 256, half=56))
    mine, theirs = infer(ours, inputs)[0], infer(load(folder), inputs)[0]
    if labels > 1:
        mine, theirs = ([label["score"] for label in found] for found in (mine, theirs))
    np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("content", ["", "[]", '{"x": 1}', '{"x": {"kernel": "packed"}}', "\0"])
def test_broken_memory_is_measured_anew(tmp_path: Path, content: str) -> None:
    weights = encoder_weights.read(load(save_bert(tmp_path / "model"))[0].auto_model)
    cache = tmp_path / "tuning.json"
    cache.write_text(content)
    choice = encoder_tuning.choose(weights, cache)
    assert choice.kernel in ("packed", "plain")
    assert encoder_tuning._load(cache) != {}


def test_other_cpu_is_measured_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = encoder_weights.read(load(save_bert(tmp_path / "model"))[0].auto_model)
    cache = tmp_path / "tuning.json"
    encoder_tuning.choose(weights, cache)
    monkeypatch.setattr(encoder_tuning, "_cpu_model", lambda: "another")
    monkeypatch.setattr(encoder_tuning, "measure", lambda _: Choice("plain", 999))
    assert encoder_tuning.choose(weights, cache) == Choice("plain", 999)
