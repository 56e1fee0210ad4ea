"""The servers that are compared, each a process with a port of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from machine.interpreter import MADE, create, place
from machine.venvs import host_venv, packages
from tests.bench.client import Client
from tests.bench.models import Model

_PATIENCE = 180.0  # seconds until a first embedding; stock Infinity warms up for 17 s
_ONNX = ("fastembed", "onnx", "tokenizers<0.23", "huggingface-hub<1", "numpy<2")
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        name: what the report calls it.
        started: seconds from its start to its first embedding.
    """

    name: str
    process: subprocess.Popen[bytes]
    port: int
    model: str
    started: float

    def client(self) -> Client:
        return Client(self.port, self.model)

    def resident(self) -> float:
        """Megabytes of memory the process holds."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@contextmanager
def stock(home: Path, model: Model) -> Iterator[Server]:
    """Infinity's own command, as the guide's image runs it; dependencies pinned so it starts."""
    port = _free_port()
    argv = [
        str(host_venv("serve") / "bin/infinity_emb"), "v2", "--model-id", model.id,
        "--engine", "torch", "--device", "cpu", "--no-bettertransformer",
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    with _run("stock", argv, {}, home=home, model=model, port=port) as server:
        yield server


@contextmanager
def ours(home: Path, model: Model, dtype: str = "float32") -> Iterator[Server]:
    """The appliance's server, without nginx."""
    port = _free_port()
    argv = [sys.executable, "-m", "appliance.serving.server"]
    settings = {"MODEL": model.id, "DTYPE": dtype, "INFINITY_PORT": str(port)}
    name = "ours" if dtype == "float32" else f"ours {dtype}"
    with _run(name, argv, settings, home=home, model=model, port=port) as server:
        yield server


@contextmanager
def fastembed(home: Path, model: Model, snapshot: Path) -> Iterator[Server]:
    """ONNX Runtime on the same weights."""
    python, exported = str(_onnx_venv() / "bin/python"), home / "onnx" / model.id.replace("/", "-")
    program = str(_ROOT / "tests/bench/onnx_server.py")
    if not (exported / "model.onnx").is_file():
        shutil.rmtree(exported, ignore_errors=True)
        subprocess.run([python, program, "export", str(snapshot), str(exported)], check=True)
    port = _free_port()
    argv = [python, program, "serve", str(exported), str(port)]
    with _run("fastembed", argv, {}, home=home, model=model, port=port) as server:
        yield server


def _onnx_venv() -> Path:
    """An environment with fastembed that sees what ``serve`` holds."""
    serve = packages(host_venv("serve"))
    path = place("onnx", *_ONNX, str(serve))
    if not (path / MADE).exists():
        create(path)
        pip = [str(path / "bin/python"), "-m", "pip", "install", "--quiet", *_ONNX]
        subprocess.run(pip, check=True)
        (packages(path) / "serve.pth").write_text(f"{serve}\n")
        (path / MADE).touch()
    return path


@contextmanager
def _run(
    name: str, argv: list[str], settings: dict[str, str], *, home: Path, model: Model, port: int
) -> Iterator[Server]:
    environment = {
        **os.environ,
        **settings,
        "HF_HOME": str(home),
        "INFINITY_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "INFINITY_ANONYMOUS_USAGE_STATS": "0",
        "DO_NOT_TRACK": "1",
        "PYTHONPATH": str(_ROOT),
    }
    log = home / f"{name.replace(' ', '-')}-{port}.log"
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(argv, env=environment, cwd=home, stdout=output, stderr=output)
    try:
        _first_embedding(process, Client(port, model.id), log)
        yield Server(name, process, port, model.id, time.monotonic() - start)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _first_embedding(process: subprocess.Popen[bytes], client: Client, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ApplianceError("A server ended before it served.", f"See {log}.")
        try:
            client.embed(["first"])
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise ApplianceError(f"A server gave no embedding within {_PATIENCE:g} s.", f"See {log}.")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
