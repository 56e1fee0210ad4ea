"""Five thousand requests made from our own OpenAPI document, through the gate, to real models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conformance import NEGATIVE, POSITIVE, Api, Job
from gate_harness import running_gate
from serving_model import three

GUARDED = [
    ("POST", "/embeddings"),
    ("POST", "/rerank"),
    ("POST", "/classify"),
    ("GET", "/models"),
    ("GET", "/models/{id}"),
    ("GET", "/metrics"),
]
OPEN = [("GET", "/health"), ("GET", "/readyz")]
# The longest first. Few bad ones for /rerank, which take the longest to make up.
JOBS = [
    Job("POST", "/embeddings", NEGATIVE, 1200),
    Job("POST", "/embeddings", POSITIVE, 1200),
    Job("POST", "/classify", NEGATIVE, 800),
    Job("POST", "/classify", POSITIVE, 1200),
    Job("POST", "/rerank", POSITIVE, 500),
    Job("POST", "/rerank", NEGATIVE, 100),
    *(Job(method, path, POSITIVE, 1) for method, path in [*GUARDED[3:], *OPEN]),
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    root = tmp_path_factory.mktemp("openapi") / "root"
    with running_gate(root, three().port) as gate:
        yield Api(f"https://localhost:{gate.https_port}", str(gate.certificate))


def test_five_thousand_answers_conform_to_the_document(api: Api) -> None:
    """What the document allows is done, what it does not is refused; nothing fails."""
    assert api.check_all(JOBS) >= 5000


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_no_credential_and_no_wrong_one_is_accepted(api: Api, method: str, path: str) -> None:
    api.check(Job(method, path, POSITIVE, 10, asks=True))


def test_a_server_that_ignores_credentials_would_be_noticed() -> None:
    bare = Api(str(three().client.base_url).rstrip("/"))
    with pytest.raises(AssertionError, match="without authentication"):
        bare.check(Job("GET", "/models", POSITIVE, 1, asks=True))


def test_every_route_is_described(api: Api) -> None:
    paths = api.document().raw_schema["paths"]
    described = {(method.upper(), path) for path in paths for method in paths[path]}
    assert described == {*GUARDED, *OPEN}
