"""What OpenAI's clients ask of /embeddings, each line of it once broken in public."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import numpy as np
import pytest
from encoder_support import infer, load, minilm, passages
from serving_model import EMBEDDER, MINILM, single, three

TEXTS = ["What is the capital of France?", "Paris.", "Berlin is a city in Germany, " * 20]


def post(body: object, path: str = "/embeddings") -> httpx.Response:
    return single().client.post(path, json=body)


def vectors(answer: httpx.Response) -> np.ndarray[Any, np.dtype[np.float64]]:
    assert answer.status_code == 200, answer.text
    assert [item["index"] for item in answer.json()["data"]] == list(
        range(len(answer.json()["data"]))
    )
    return np.array([item["embedding"] for item in answer.json()["data"]])


def refused(answer: httpx.Response, param: str | None, *words: str) -> dict[str, Any]:
    assert answer.status_code == 400, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    for word in words:
        assert word in error["message"]
    return error


@pytest.mark.parametrize("path", ["/embeddings", "/embeddings/", "/v1/embeddings"])
def test_each_path_gives_what_stock_infinity_computes(path: str) -> None:
    stock = infer(load(minilm()), TEXTS)
    ours = vectors(post({"input": TEXTS, "model": MINILM}, path))
    assert ours.shape == stock.shape
    assert (ours * stock).sum(1).min() >= 0.99999


def test_answer_has_openais_shape() -> None:
    answer = post({"input": "one", "model": MINILM, "user": "somebody", "anything": [1]}).json()
    assert answer["object"] == "list"
    assert answer["model"] == MINILM
    assert answer["data"][0]["object"] == "embedding"
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}  # [CLS] one [SEP]


def test_null_means_absent() -> None:
    fields = dict.fromkeys(
        ("model", "encoding_format", "dimensions", "user", "truncate", "modality")
    )
    assert vectors(post({"input": "one", **fields})).shape == (1, 384)


def test_base64_carries_exactly_the_numbers_of_float() -> None:
    plain = vectors(post({"input": TEXTS}))
    packed = post({"input": TEXTS, "encoding_format": "base64"}).json()["data"]
    for row, item in zip(plain, packed, strict=True):
        raw = np.frombuffer(base64.b64decode(item["embedding"]), dtype="<f4")
        assert raw.astype(np.float64).tolist() == row.tolist()


@pytest.mark.parametrize(
    ("ids", "text"),
    [([15339, 1917], "hello world"), ([[15339, 1917], [9906]], "hello world")],
)
def test_token_ids_are_embedded_as_the_text_they_stand_for(ids: object, text: str) -> None:
    by_ids, by_text = vectors(post({"input": ids})), vectors(post({"input": text}))
    assert np.allclose(by_ids[0], by_text[0], atol=1e-6)


@pytest.mark.parametrize("bad", [100277, 100256, -1, 1.5, True, "x", None, 10**30])
def test_ids_that_do_not_exist_are_refused(bad: object) -> None:
    refused(post({"input": [9906, bad]}), "input")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", ["empty"]),
        ("  \n\t ", ["empty"]),
        ("\x1c\x85\ufeff\u3000", ["empty"]),
        ([], ["empty"]),
        (["a", ""], ["input[1]", "empty"]),
        (["a", "b", " "], ["input[2]"]),
        ([[9906], []], ["input[1]"]),
        ([[]], ["input[0]"]),
        (5.5, []),
        (True, ["string"]),
        ({"text": "x"}, ["string"]),
        (None, ["string"]),
        (["a", 7], ["input[1]"]),
        (["a", None], ["input[1]"]),
        (["x"] * 2049, ["2049", "2048"]),
        ("x" * 122_881, ["122881"]),
        (["a", "y" * 122_881], ["input[1]"]),
    ],
)
def test_inputs_that_cannot_be_meant_are_refused_by_name(value: object, words: list[str]) -> None:
    refused(post({"input": value}), "input", *words)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("encoding_format", "int8"),
        ("encoding_format", 5),
        ("dimensions", 0),
        ("dimensions", 128),
        ("dimensions", 385),
        ("dimensions", "384"),
        ("dimensions", True),
        ("dimensions", 1e300),
        ("truncate", "yes"),
        ("model", 5),
        ("modality", "smell"),
    ],
)
def test_a_wrong_field_is_refused_by_name(field: str, value: object) -> None:
    refused(post({"input": "x", field: value}), field)


def test_the_models_own_size_can_be_asked_for() -> None:
    assert vectors(post({"input": "x", "dimensions": 384})).shape == (1, 384)


def test_images_are_refused_before_anything_is_fetched() -> None:
    body = {"input": "http://192.0.2.1/cat.png", "modality": "image"}
    error = refused(post(body), "model", "ModelNotDeployedError", "does not support `image_embed`")
    assert error["code"] == "model_not_deployed"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'"x"', b'{"input": NaN}', b"\xff", b"[" * 10**5]
)
def test_malformed_json_is_400(body: bytes) -> None:
    answer = single().client.post(
        "/embeddings", content=body, headers={"Content-Type": "application/json"}
    )
    refused(answer, None)


@pytest.mark.parametrize("media", ["application/x-www-form-urlencoded", "text/plain"])
def test_another_content_type_is_415(media: str) -> None:
    answer = single().client.post(
        "/embeddings", content=b'{"input":"x"}', headers={"Content-Type": media}
    )
    assert answer.status_code == 415
    assert answer.json()["error"]["message"]


def test_a_lone_surrogate_is_embedded_as_the_replacement_character() -> None:
    body = rb'{"input": ["caf\u00e9 \ud83d", "pair \ud83d\ude00"]}'
    answer = single().client.post(
        "/embeddings", content=body, headers={"Content-Type": "application/json"}
    )
    expected = vectors(post({"input": ["café \ufffd", "pair 😀"]}))
    assert np.allclose(vectors(answer), expected, atol=1e-6)


def test_a_long_text_is_cut_counted_or_refused() -> None:
    long = "word " * 1000
    answer = post({"input": ["short", long, long]})
    assert answer.headers["X-Truncated-Inputs"] == "2"
    assert answer.json()["usage"]["total_tokens"] == 3 + 256 + 256
    error = refused(post({"input": ["short", long], "truncate": False}), "input", "input[1]", "256")
    assert error["code"] == "context_length_exceeded"
    assert "X-Truncated-Inputs" not in post({"input": "word " * 254}).headers


def test_a_model_that_is_not_served_is_refused() -> None:
    error = refused(post({"input": "x", "model": "nope"}), "model", "Invalid model: ")
    assert error["code"] == "model_not_found"


def test_one_of_several_models_has_to_be_named() -> None:
    client = three().client
    refused(client.post("/embeddings", json={"input": "x"}), "model", EMBEDDER)
    by_alias = client.post("/embeddings", json={"input": "x", "model": "text-embedding-3-small"})
    by_name = client.post("/embeddings", json={"input": "x", "model": EMBEDDER})
    assert by_alias.json()["model"] == EMBEDDER
    assert np.allclose(vectors(by_alias), vectors(by_name), atol=1e-6)


def test_2048_texts_come_back_in_order() -> None:
    few = passages(64, mean=1.0, longest=8)
    many = [few[i % 64] for i in range(2048)]
    small, large = vectors(post({"input": few})), vectors(post({"input": many}))
    assert (large * small[np.arange(2048) % 64]).sum(1).min() >= 0.99999
