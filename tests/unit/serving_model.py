"""The real server on real models: a hub cache laid out by hand, and a process to talk to."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from encoder_support import minilm, save_bert

REPO = Path(__file__).resolve().parents[2]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
EMBEDDER, RERANKER, CLASSIFIER = "embedder", "reranker", "classifier"
# The commit under which the cache keeps what a test lays out; any would do.
COMMIT = "0" * 40


def lay_out(home: Path, repo: str) -> Path:
    """A place for a model in the cache of ``home``: its (empty) snapshot folder."""
    folder = home / "hub" / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text(COMMIT)
    return snapshot


@cache
def models() -> Path:
    """An HF_HOME with MiniLM's real weights, a random reranker and a random classifier."""
    home = Path(tempfile.mkdtemp(prefix="serving-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shutil.copytree(minilm(), lay_out(home, MINILM), dirs_exist_ok=True)
    head = "BertForSequenceClassification"
    save_bert(lay_out(home, "made/reranker"), head, num_labels=1)
    save_bert(lay_out(home, "made/classifier"), head, num_labels=3)
    return home


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Server:
    """A server process; ``with`` starts it, waits until it is ready, and ends it."""

    def __init__(self, *program: str, home: Path | None = None, **settings: str) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="serving-"))
        self._program = program or ("-m", "appliance.serving.server")
        self._home = home or models()
        self._settings = {"MODEL": MINILM, **settings}
        self.notified: list[str] = []

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def start(self) -> Self:
        self._listen()
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self._program],
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(REPO), str(REPO / "tests/unit")]),
                    "HF_HOME": str(self._home),
                    "INFINITY_HOME": str(self.folder),
                    "INFINITY_PORT": str(self.port),
                    "NOTIFY_SOCKET": str(self.folder / "notify"),
                    "WATCHDOG_USEC": "30000000",
                    **self._settings,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def __enter__(self) -> Self:
        self.start()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def wait_until_ready(self) -> None:
        """Fail with the log when the server ends, or takes more than two minutes."""
        deadline = time.monotonic() + 120
        while "READY=1" not in self.notified:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server did not start:\n{self.log}")
            time.sleep(0.05)

    def stop(self) -> int:
        """End it as systemd does; its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if hasattr(self, "client"):
            self.client.close()
        self._socket.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return status

    def _listen(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.folder / "notify"))
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self) -> None:
        while True:
            try:
                self.notified += self._socket.recv(4096).decode().splitlines()
            except OSError:
                return


@cache
def three() -> Server:
    """One process with three models under served names and an alias, for all tests that leave
    it as it is.
    """
    server = Server(
        MODEL=f"{MINILM};made/reranker;made/classifier",
        INFINITY_SERVED_MODEL_NAME=f"{EMBEDDER};{RERANKER};{CLASSIFIER}",
        MODEL_ALIASES=f"text-embedding-3-small={EMBEDDER}",
    )
    server.__enter__()
    atexit.register(server.stop)
    return server


@cache
def single() -> Server:
    """One process with MiniLM alone."""
    server = Server()
    server.__enter__()
    atexit.register(server.stop)
    return server
