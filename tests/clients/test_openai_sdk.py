"""OpenAI's own SDK, told nothing but a base URL and a key."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from endpoint import DIMENSIONS, EMBEDDER, MADE, RERANKER, Endpoint
from gate_harness import KEY, free_ports, running_gate

pytestmark = pytest.mark.boot

NAME = "text-embedding-3-small"
TEXTS = ["What is the capital of France?", "Paris is the capital of France.", "Fish swim."]


@pytest.fixture(scope="module")
def client(endpoint: Endpoint) -> openai.OpenAI:
    return openai.OpenAI(base_url=endpoint.url, api_key=endpoint.key)


def once(endpoint: Endpoint, **options: Any) -> openai.OpenAI:  # noqa: ANN401 - the SDK's
    """A client that does not try again."""
    wanted = {"base_url": endpoint.url, "api_key": endpoint.key, "max_retries": 0, **options}
    return openai.OpenAI(**wanted)


def rows(answer: openai.types.CreateEmbeddingResponse) -> np.ndarray[Any, Any]:
    assert [item.index for item in answer.data] == list(range(len(answer.data)))
    return np.array([item.embedding for item in answer.data])


@pytest.mark.parametrize("prefix", ["", "/", "/v1", "/v1/"])
def test_sync_client_embeds_under_every_base_url(endpoint: Endpoint, prefix: str) -> None:
    client = openai.OpenAI(base_url=endpoint.url + prefix, api_key=endpoint.key)
    answer = client.embeddings.create(model=NAME, input=TEXTS)
    assert rows(answer).shape == (3, DIMENSIONS)
    assert answer.model == EMBEDDER
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == 9 + 9 + 5


def test_base64_that_it_asks_for_gives_the_numbers_of_float(client: openai.OpenAI) -> None:
    raw = client.embeddings.with_raw_response.create(model=NAME, input=TEXTS)
    sent = raw.http_response.request.read()
    assert b'"encoding_format":"base64"' in sent.replace(b": ", b":")
    plain = client.embeddings.create(model=NAME, input=TEXTS, encoding_format="float")
    assert rows(raw.parse()).tolist() == rows(plain).tolist()
    packed = client.embeddings.create(model=NAME, input=TEXTS[0], encoding_format="base64")
    vector = np.frombuffer(base64.b64decode(str(packed.data[0].embedding)), dtype="<f4")
    assert float(vector @ rows(plain)[0]) >= 0.99999, "alone, it is another batch"


def test_async_client_gets_every_answer_to_its_own_question(endpoint: Endpoint) -> None:
    texts = [f"Sentence number {number}." for number in range(40)]

    async def ask() -> list[list[float]]:
        async with openai.AsyncOpenAI(base_url=endpoint.url, api_key=endpoint.key) as client:
            answers = await asyncio.gather(
                *(client.embeddings.create(model=NAME, input=text) for text in texts)
            )
        return [answer.data[0].embedding for answer in answers]

    alone = np.array(asyncio.run(ask()))
    together = rows(once(endpoint).embeddings.create(model=NAME, input=texts))
    assert (alone * together).sum(1).min() >= 0.99999


def test_token_ids_mean_their_text(client: openai.OpenAI) -> None:
    by_text = rows(client.embeddings.create(model=NAME, input="hello world"))
    by_ids = rows(client.embeddings.create(model=NAME, input=[15339, 1917]))
    by_lists = rows(client.embeddings.create(model=NAME, input=[[15339, 1917], [9906]]))
    assert np.allclose(by_text, by_ids, atol=1e-6)
    assert np.allclose(by_text[0], by_lists[0], atol=1e-5)


def test_most_inputs_of_a_request_come_back_in_order(client: openai.OpenAI) -> None:
    texts = [f"{number}" for number in range(2048)]
    vectors = rows(client.embeddings.create(model=NAME, input=texts))
    some = rows(client.embeddings.create(model=NAME, input=texts[::512]))
    assert (vectors[::512] * some).sum(1).min() >= 0.99999


def test_models_are_listed_and_found_by_every_name(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [EMBEDDER, RERANKER]
    for name in (EMBEDDER, NAME, "text-embedding-ada-002"):
        assert client.models.retrieve(name).id == EMBEDDER
    assert client.models.retrieve(MADE).id == RERANKER


def test_client_of_the_guide_brings_its_own_certificate(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=str(endpoint.certificate))
    with httpx.Client(verify=context) as own:
        answer = once(endpoint, http_client=own).embeddings.create(model=NAME, input="x")
    assert rows(answer).shape == (1, DIMENSIONS)


@pytest.mark.parametrize(
    ("body", "param", "code", "word"),
    [
        ({"model": "gpt-4o", "input": "x"}, "model", "model_not_found", "Invalid model: "),
        ({"model": RERANKER, "input": "x"}, "model", "model_not_deployed", "does not support"),
        ({"model": NAME, "input": ["a", ""]}, "input", "empty_input", "input[1]"),
        ({"model": NAME, "input": ["a"] * 2049}, "input", "too_many_inputs", "2049"),
        ({"model": NAME, "input": [[100277]]}, "input", "invalid_token_id", "input[0]"),
        ({"model": NAME, "input": "a", "dimensions": 7}, "dimensions", "invalid_value", "384"),
        ({"model": NAME, "input": "a" * 122_881}, "input", "string_above_max_length", "122881"),
    ],
)
def test_bad_requests_are_its_bad_request_error(
    client: openai.OpenAI, body: dict[str, Any], param: str, code: str, word: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(**body)
    assert (caught.value.status_code, caught.value.param, caught.value.code) == (400, param, code)
    assert caught.value.type == "invalid_request_error"
    assert word in caught.value.message
    assert caught.value.request_id


@pytest.mark.parametrize("key", ["inf-" + "0" * 48, "sk-wrong", "{key}0", "{KEY}"])
def test_wrong_keys_are_its_authentication_error(endpoint: Endpoint, key: str) -> None:
    wrong = key.format(key=endpoint.key, KEY=endpoint.key.upper())
    with pytest.raises(openai.AuthenticationError) as caught:
        once(endpoint, api_key=wrong).embeddings.create(model=NAME, input="x")
    assert (caught.value.status_code, caught.value.code) == (401, "invalid_api_key")
    assert wrong not in caught.value.message


def test_other_refusals_are_its_other_errors(endpoint: Endpoint, client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4o")
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "Hi"}])
    assert missing.value.code == "not_found"
    foreign = once(endpoint, default_headers={"Origin": "https://evil.example"})
    with pytest.raises(openai.PermissionDeniedError):
        foreign.embeddings.create(model=NAME, input="x")
    with pytest.raises(openai.APIStatusError) as large:
        client.embeddings.create(model=NAME, input=["x" * 120_000] * 300)
    assert (large.value.status_code, large.value.code) == (413, "request_too_large")


def test_what_does_not_reach_the_machine_is_its_connection_error(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = endpoint.url.replace(endpoint.host, endpoint.machine.address)
    with httpx.Client(verify=False) as careless, pytest.raises(openai.APIConnectionError):  # noqa: S501
        once(endpoint, base_url=unknown, http_client=careless).models.list()
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(openai.APIConnectionError):
        once(endpoint).models.list()


def test_restarting_server_is_its_internal_server_error(tmp_path: Path) -> None:
    """The gate with nobody behind it, as while the model loads."""
    with running_gate(tmp_path / "root", free_ports(1)[0]) as gate:
        options: dict[str, Any] = {
            "base_url": f"https://localhost:{gate.https_port}",
            "api_key": KEY,
            "max_retries": 0,
            "http_client": httpx.Client(
                verify=ssl.create_default_context(cafile=str(gate.certificate))
            ),
        }
        with pytest.raises(openai.InternalServerError) as e:
            openai.OpenAI(**options).models.list()
    assert (e.value.status_code, e.value.code) == (503, "service_unavailable")
    assert int(e.value.response.headers["Retry-After"]) > 0
