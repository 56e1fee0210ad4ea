"""Answers to ACME challenges are shown on port 80, and nothing else that is on the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_harness import ALIAS, HOST, Gate, running_gate
from gate_stub import Stub

FOLDER = "/.well-known/acme-challenge"
TOKEN = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
UNKNOWN = "unknown.invalid"


@pytest.fixture
def webroot(tmp_path: Path) -> Path:
    folder = tmp_path / "webroot"
    (folder / FOLDER[1:]).mkdir(parents=True)
    (folder / FOLDER[1:] / TOKEN).write_text("answer")
    (folder / FOLDER[1:] / "link").symlink_to("/etc/passwd")
    (folder / "beside").write_text("secret")
    return folder


@pytest.fixture
def ordering(tmp_path: Path, stub: Stub, webroot: Path) -> Iterator[Gate]:
    edits = {"infinity/acme.conf": ("/var/lib/infinity-acme", str(webroot))}
    with running_gate(tmp_path / "root", stub.port, edits) as gate:
        yield gate


@pytest.mark.parametrize("host", [HOST, ALIAS, UNKNOWN])
def test_the_answer_is_shown_under_any_name(ordering: Gate, host: str) -> None:
    answer = ordering.ask("GET", f"{FOLDER}/{TOKEN}", host=host, tls=False)
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"answer")


@pytest.mark.parametrize(
    "path", ["/", "/no-such-token", "/link", "/../../beside", "/%2e%2e/%2e%2e/beside", "/x/y"]
)
def test_an_unknown_host_finds_nothing_else(ordering: Gate, path: str) -> None:
    assert ordering.ask("GET", FOLDER + path, host=UNKNOWN, tls=False) is None


@pytest.mark.parametrize("path", ["/", "/no-such-token", "/link"])
def test_a_known_host_gets_no_file_either(ordering: Gate, path: str) -> None:
    answer = ordering.ask("GET", FOLDER + path, host=HOST, tls=False)
    assert answer is not None
    assert answer.status in {403, 404}
    assert b"root" not in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PROPFIND"])
def test_nothing_can_be_written_there(ordering: Gate, method: str) -> None:
    answer = ordering.ask(method, f"{FOLDER}/{TOKEN}", host=HOST, tls=False)
    assert answer is not None
    assert answer.status == 405
    assert ordering.ask(method, f"{FOLDER}/{TOKEN}", host=UNKNOWN, tls=False) is None


def test_the_tls_port_shows_none(ordering: Gate) -> None:
    assert ordering.get(f"{FOLDER}/{TOKEN}").status == 401


def test_everything_else_still_redirects(ordering: Gate) -> None:
    for path in ("/.well-known/other", "/.well-known/acme-challenge", "/models"):
        answer = ordering.ask("GET", path, host=HOST, tls=False)
        assert answer is not None
        assert answer.status == 301, path
