"""The download, from a model hub of the test's own: whole or not at all, and nothing unwanted."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from appliance import hub, room
from appliance.errors import ApplianceError
from appliance.serving import progress

REPO = Path(__file__).resolve().parents[2]
COMMIT = "c" * 40
WEIGHTS = b"w" * 300_000
FILES = {
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "1_Pooling/config.json": b"{}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"pickled",
    "modeling_made.py": b"print('code')",
    "onnx/model.safetensors": b"another framework's",
    "README.md": b"text",
}
WANTED = {"config.json", "tokenizer.json", "1_Pooling/config.json", "model.safetensors"}


class Hub(ThreadingHTTPServer):
    """Answers as the hub's API does, for one model; keeps the paths that were taken."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = dict(FILES)
        self.sizes: dict[str, int] = {}
        self.taken: list[str] = []
        self.stalls = threading.Event()  # the weights come half, and no more
        self.stalled = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = self.path.partition("?")[0]
        if re.fullmatch(f"/api/models/made/model/revision/(main|v1|{COMMIT})", path):
            sizes = {name: len(data) for name, data in self.server.files.items()}
            sizes |= self.server.sizes
            siblings = [{"rfilename": name, "size": size} for name, size in sizes.items()]
            said = {"id": "made/model", "sha": COMMIT, "siblings": siblings}
            self.send(json.dumps(said).encode())
        elif path.startswith(f"/made/model/resolve/{COMMIT}/"):
            self.send(self.server.files[path.split("/", 5)[5]])
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def send(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.server.taken.append(self.path.split("/", 5)[-1])
        if data is WEIGHTS and self.server.stalls.is_set():
            self.wfile.write(data[: len(data) // 2])
            self.server.stalled.set()
            self.server.stalls.wait()
            threading.Event().wait(60)
        else:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Not into the test's output."""


@pytest.fixture
def made() -> Iterator[Hub]:
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def fetch(home: Path, made: Hub, **settings: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "appliance.serving.fetch"],
        env={
            **os.environ,
            "PYTHONPATH": str(REPO),
            "HF_HOME": str(home),
            "HF_ENDPOINT": made.url,
            "MODEL": "made/model",
            **settings,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(home: Path, made: Hub, **settings: str) -> tuple[int, str]:
    """Status and standard error of a whole run."""
    process = fetch(home, made, **settings)
    _, said = process.communicate(timeout=120)
    return process.returncode, said


def cached(home: Path) -> dict[str, set[str]]:
    """The files of each revision in the cache, by the names that stand for it."""
    return {" ".join(model.refs): set(model.files) for model in hub.cached(home / "hub")}


def test_what_is_wanted_comes_whole_and_nothing_else(tmp_path: Path, made: Hub) -> None:
    (tmp_path / "hub").mkdir()
    status, said = done(tmp_path, made)
    assert status == 0, said
    assert cached(tmp_path) == {"main": WANTED}
    (model,) = hub.cached(tmp_path / "hub")
    assert (model.snapshot / "model.safetensors").read_bytes() == WEIGHTS
    assert [path.name for path in (tmp_path / "hub").iterdir()] == ["models--made--model"]
    made.taken.clear()
    assert done(tmp_path, made)[0] == 0
    assert made.taken == [], "what is there is not fetched again"


def test_a_download_that_is_killed_is_not_in_the_cache_and_goes_on(
    tmp_path: Path, made: Hub
) -> None:
    (tmp_path / "hub").mkdir()
    made.stalls.set()
    process = fetch(tmp_path, made, MODEL="made/model@v1")
    assert made.stalled.wait(60)
    process.kill()
    process.communicate()
    assert cached(tmp_path) == {}
    made.stalls.clear()
    status, said = done(tmp_path, made, MODEL="made/model@v1")
    assert status == 0, said
    assert cached(tmp_path) == {"v1": WANTED}


def test_a_pickle_is_not_taken_where_there_are_safetensors_and_code_only_where_it_may_run(
    tmp_path: Path, made: Hub
) -> None:
    (tmp_path / "hub").mkdir()
    assert done(tmp_path, made, ALLOW_PICKLE="true", TRUST_REMOTE_CODE="true")[0] == 0
    assert cached(tmp_path) == {"main": WANTED | {"modeling_made.py"}}


def test_a_pickle_is_taken_only_when_allowed(tmp_path: Path, made: Hub) -> None:
    (tmp_path / "hub").mkdir()
    del made.files["model.safetensors"], made.files["onnx/model.safetensors"]
    status, said = done(tmp_path, made)
    assert status == 1
    assert "safetensors" in said
    assert "Traceback" not in said
    assert done(tmp_path, made, ALLOW_PICKLE="true")[0] == 0
    (files,) = cached(tmp_path).values()
    assert "pytorch_model.bin" in files


def test_what_the_disk_or_the_memory_cannot_hold_is_not_begun(
    tmp_path: Path, made: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hub").mkdir()
    made.sizes["model.safetensors"] = 2**60
    status, said = done(tmp_path, made)
    assert status == 1
    assert "MB free" in said
    assert not any("safetensors" in path for path in made.taken)
    monkeypatch.setattr(room, "limit", lambda: room.BASE + 1000)
    with pytest.raises(ApplianceError, match="memory"):
        room.demand(1001)
    room.demand(1000)


def test_a_model_that_is_not_there_is_named(tmp_path: Path, made: Hub) -> None:
    (tmp_path / "hub").mkdir()
    status, said = done(tmp_path, made, MODEL="nobody/none")
    assert status == 1
    assert "There is no model nobody/none on the hub." in said
    assert "Traceback" not in said


def test_systemd_is_told_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs/one.incomplete").write_bytes(b"x" * 300_000)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with progress.shown("made/model", 1_200_000, tmp_path):
            told = notified.recv(4096).decode()
    assert told == "STATUS=made/model [#######.......................]  25% of 1.2 MB"
