"""The README's way to submit a version, word for word, against a Catalog API of our own."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from lint_tools import REPO
from readme_reader import blocks, filled, typed

_, PUBLISH = blocks("README.md", "## Build your own AMI")
VALUES = {
    "prod-id": "prod-example",
    "access-role-arn": "arn:aws:iam::123456789012:role/AwsMarketplaceAmiIngestion",
}
RECORD = {"image": "ami-0123456789abcdef0", "version": "1.2.3", "build": "0123abcd-x1"}


@contextmanager
def catalog() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An endpoint, and the change sets that were started there; each succeeds at once."""
    started: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            started.append(json.loads(self.rfile.read(length)))
            self.answer({"ChangeSetId": "cs1", "ChangeSetArn": "arn:aws:x"})

        def do_GET(self) -> None:
            self.answer({"ChangeSetId": "cs1", "Status": "SUCCEEDED"})

        def answer(self, body: dict[str, str]) -> None:
            raw = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", started
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One in which an AMI has been built."""
    folder = tmp_path_factory.mktemp("seller") / "checkout"
    for name in ("appliance", "docs", "machine", "packer"):
        shutil.copytree(
            REPO / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("CHANGELOG.md", "pyproject.toml"):
        shutil.copy2(REPO / name, folder / name)
    record = folder / "build/ami" / RECORD["build"] / "ami.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(RECORD))
    return folder


def submitted(
    checkout: Path, patch: pytest.MonkeyPatch, block: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Type the block; what it said, and what arrived."""
    with catalog() as (endpoint, started):
        for name, value in {
            "AWS_ENDPOINT_URL_MARKETPLACE_CATALOG": endpoint,
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
        }.items():
            patch.setenv(name, value)
        return typed(filled(block, VALUES), checkout), started


def test_the_version_is_validated_and_not_published(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, started = submitted(checkout, monkeypatch, PUBLISH)
    assert done.returncode == 0, done.stderr
    assert "The version is valid." in done.stdout
    (request,) = started
    assert request["Intent"] == "VALIDATE"
    (change,) = request["ChangeSet"]
    assert change["Entity"]["Identifier"] == VALUES["prod-id"]
    (option,) = change["DetailsDocument"]["DeliveryOptions"]
    source = option["Details"]["AmiDeliveryOptionDetails"]["AmiSource"]
    assert (source["AmiId"], source["AccessRoleArn"]) == (
        RECORD["image"],
        VALUES["access-role-arn"],
    )


@pytest.mark.parametrize(
    ("right", "wrong"),
    [(" --validate", ""), ("publish", "publisch"), ("--product", "--products"), ("ami --", "amy")],
)
def test_a_wrong_command_is_noticed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    assert right in PUBLISH
    done, started = submitted(checkout, monkeypatch, PUBLISH.replace(right, wrong))
    intents = [request["Intent"] for request in started]
    assert done.returncode != 0 or intents != ["VALIDATE"]
