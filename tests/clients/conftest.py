"""One machine for every client, and this computer as a client's: name, certificate, table."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from endpoint import Endpoint, lookup, prepared

from appliance.serving import cl100k
from machine.instance import Machine

# tiktoken keeps a table under the sha1 of where it would get it.
TABLE = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"


@pytest.fixture(scope="package")
def endpoint(shared: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """The shared machine with two models, reachable by its name and trusted by every client."""
    folder = tmp_path_factory.mktemp("clients")
    with prepared(shared, folder) as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", lookup(made.host, shared.address))
        for name in os.environ:
            if name.startswith("OPENAI_") or name.lower().endswith("_proxy"):
                patch.delenv(name)
        patch.setenv("SSL_CERT_FILE", str(made.certificate))
        patch.setenv("REQUESTS_CA_BUNDLE", str(made.certificate))
        patch.setenv("TIKTOKEN_CACHE_DIR", str(tiktoken_cache(folder / "tiktoken")))
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the internet for one
        yield made


def tiktoken_cache(folder: Path) -> Path:
    """A cache for tiktoken with cl100k_base in it, from the table that the server decodes with."""
    spec = importlib.util.find_spec(cl100k._PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    folder.mkdir()
    packed = (Path(spec.origin).parent / cl100k._FILE).read_bytes()
    name = hashlib.sha1(TABLE.encode(), usedforsecurity=False).hexdigest()
    (folder / name).write_bytes(gzip.decompress(packed))
    return folder
