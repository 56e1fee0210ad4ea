"""Infinity as it comes and as we serve it, each a process with a port of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from machine.venvs import host_venv
from tests.bench.client import Client
from tests.bench.models import Model

# Seconds until a first embedding; idle, stock Infinity warms up for 17 s.
_PATIENCE = 600.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        name: what the report calls it.
        started: seconds from its start to its first embedding.
        client: makes a connection to it.
    """

    name: str
    process: subprocess.Popen[bytes]
    port: int
    started: float
    client: Callable[[], Client]

    def resident(self) -> float:
        """Megabytes of memory the process holds."""
        return self._megabytes("VmRSS")

    def most_resident(self) -> float:
        """The most it held since ``forget_most``, where the kernel lets that be forgotten."""
        return self._megabytes("VmHWM")

    def forget_most(self) -> None:
        with suppress(OSError):  # proc(5): 5 resets the peak
            Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _megabytes(self, field: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


@contextmanager
def stock(home: Path, model: Model) -> Iterator[Server]:
    """Infinity's own command, as the guide's image runs it; dependencies pinned so it starts."""
    port = free_port()
    argv = [
        str(host_venv("serve") / "bin/infinity_emb"), "v2", "--model-id", model.id,
        "--engine", "torch", "--device", "cpu", "--no-bettertransformer",
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    with running("stock", argv, home=home, port=port, model=model) as server:
        yield server


@contextmanager
def ours(home: Path, model: Model, dtype: str = "float32") -> Iterator[Server]:
    """The appliance's server, without nginx."""
    port = free_port()
    argv = [sys.executable, "-m", "appliance.serving.server"]
    settings = {"MODEL": model.id, "DTYPE": dtype, "INFINITY_PORT": str(port)}
    name = "ours" if dtype == "float32" else f"ours {dtype}"
    with running(name, argv, home=home, port=port, model=model, settings=settings) as server:
        yield server


@contextmanager
def running(
    name: str,
    argv: Sequence[str],
    *,
    home: Path,
    port: int,
    model: Model,
    path: str = "/embeddings",
    settings: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """A server's process, from its first embedding to the end of the block.

    Args:
        name: what the report calls it.
        argv: its command.
        home: where models and its log are.
        port: of 127.0.0.1, on which it will listen.
        model: what it serves.
        path: of its route for embeddings.
        settings: more of its environment.

    Raises:
        ApplianceError: it ended, or gave no embedding.
    """
    environment = {
        **os.environ,
        **(settings or {}),
        "HF_HOME": str(home),
        "INFINITY_HOME": str(home),
        "HF_HUB_OFFLINE": "1",
        "INFINITY_ANONYMOUS_USAGE_STATS": "0",
        "DO_NOT_TRACK": "1",
        "PYTHONPATH": str(ROOT),
    }
    log = home / f"{name.replace(' ', '-')}.log"
    start = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(argv, env=environment, cwd=home, stdout=output, stderr=output)
    try:
        _first_embedding(process, Client(port, model.id, path), log)
        started = time.monotonic() - start
        yield Server(name, process, port, started, lambda: Client(port, model.id, path))
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


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
