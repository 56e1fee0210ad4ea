"""What TLS, nginx and the key add to a query: the gate of `make run` before a server."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.paths import Paths
from machine import local_root, unpacked
from machine.model import stand_in
from machine.names import CHECKOUT
from tests.bench.client import Client
from tests.bench.models import Model
from tests.bench.servers import Server, free_port

_PATIENCE = 60.0  # seconds until the emulator or nginx answers


class GateClient(Client):
    """The same client over TLS with the key."""

    def __init__(self, port: int, model: str, paths: Paths) -> None:
        super().__init__(port, model)
        lines = (line.partition("=") for line in paths.credentials.read_text().splitlines())
        values = {name: value for name, _, value in lines}
        self._paths = paths
        self._headers |= {
            "Authorization": f"Bearer {values['INFINITY_API_KEY']}",
            "Host": values["INFINITY_HOST"],
        }
        context = ssl.create_default_context(cafile=str(paths.certificate))
        context.check_hostname = False  # it is reached by its address
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=600, context=context
        )

    def clone(self) -> GateClient:
        return GateClient(self._port, self._model, self._paths)


@contextmanager
def gate(home: Path, server: Server, model: Model) -> Iterator[Server]:
    """The same server once more, through TLS, nginx and key as an instance has them."""
    paths, nginx = Paths(home / "gate"), unpacked.find("nginx", "nginx")
    local_root.lay_out(paths, stand_in())
    port, plain, log = free_port(), free_port(), home / "emulator.log"
    emulator = [
        sys.executable, "-m", "machine.imds",
        "--file", str(local_root.metadata(paths)), "--port", "0",
    ]  # fmt: skip
    with log.open("wb") as output:
        running = [subprocess.Popen(emulator, cwd=CHECKOUT, stdout=output, stderr=output)]
    try:
        _until(lambda: log.read_text().startswith("listening"))
        subprocess.run(
            [sys.executable, "-m", "firstboot", "--root", str(paths.root),
             "--imds-url", f"http://{log.read_text().split()[1]}", "--nginx", str(nginx),
             "--https-port", str(port), "--http-port", str(plain),
             "--upstream-port", str(server.port)],
            cwd=CHECKOUT, check=True, capture_output=True,
        )  # fmt: skip
        command = [str(word) for word in Gate(paths, str(nginx)).command()]
        running.append(subprocess.Popen(command, cwd=CHECKOUT))
        client = partial(GateClient, port, model.id, paths)
        _until(lambda: _answers(client()))
        yield replace(server, name="gate", port=port, client=client)
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(15)


def added(servers: Sequence[Server], queries: list[str]) -> dict[str, list[float]]:
    """Seconds of the same queries with and without the gate, by turns."""
    clients = {server.name: server.client() for server in servers}
    times: dict[str, list[float]] = {name: [] for name in clients}
    for query in queries:
        for name, client in clients.items():
            times[name].append(client.embed([query]))
    return times


def _answers(client: Client) -> bool:
    try:
        client.embed(["first"])
    except OSError:
        return False
    return True


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise ApplianceError("The gate did not come.", "See the benchmark's folder.")
        time.sleep(0.1)
