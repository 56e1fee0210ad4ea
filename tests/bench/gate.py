"""What TLS, nginx and the key add to a query: the gate of `make run` before a server."""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.gate import Gate
from appliance.paths import Paths
from machine import local_root, unpacked
from machine.model import stand_in
from machine.names import CHECKOUT
from tests.bench.client import Client
from tests.bench.servers import Server, _free_port

_PATIENCE = 60.0  # seconds until the emulator or nginx answers


class GateClient(Client):
    """The same client over TLS with the key."""

    def __init__(self, port: int, model: str, paths: Paths) -> None:
        super().__init__(port, model)
        lines = (line.partition("=") for line in paths.credentials.read_text().splitlines())
        values = {name: value for name, _, value in lines}
        self._host, self._paths = values["INFINITY_HOST"], paths
        self._headers |= {
            "Authorization": f"Bearer {values['INFINITY_API_KEY']}",
            "Host": self._host,
        }
        context = ssl.create_default_context(cafile=str(paths.certificate))
        context.check_hostname = False  # it is reached by its address
        self._connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=600, context=context
        )


@contextmanager
def gate(home: Path, server: Server) -> Iterator[GateClient]:
    """nginx as an instance has it, before a server that runs."""
    paths, nginx = Paths(home / "gate"), unpacked.find("nginx", "nginx")
    local_root.lay_out(paths, stand_in())
    port, plain, log = _free_port(), _free_port(), home / "emulator.log"
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
        client = GateClient(port, server.model, paths)
        _until(lambda: _answers(client))
        yield client
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(15)


def added(home: Path, server: Server, queries: list[str]) -> dict[str, list[float]]:
    """Seconds of the same queries with and without the gate, by turns."""
    with gate(home, server) as through:
        clients = {"ours": server.client(), "gate": through}
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
            raise SystemExit("The gate did not come; see the benchmark's folder.")
        time.sleep(0.1)
