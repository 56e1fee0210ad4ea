"""A second model server beside the present one, in the same sandbox, to see whether it works."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from appliance import units
from appliance.paths import Paths

SERVER, FETCH = "infinity-trial", "infinity-fetch"
LONGEST = "RuntimeMaxSec=20min"  # should nobody be left to stop it


def fetch(environment: Mapping[str, str], watch: Callable[[str], None]) -> None:
    """Have the models that ``environment`` names downloaded, as infinity-model.service does.

    Args:
        environment: as infinity.env has it.
        watch: told how far it is.

    Raises:
        ApplianceError: what the download said.
    """
    # Failing is for who started it, not for the server's journal or timer.
    with _copied("infinity-model.service", FETCH, ["ExecStopPost="], environment):
        units.start(f"{FETCH}.service", watch)


@contextmanager
def server(
    environment: Mapping[str, str], venv: Path | None = None, watch: Callable[[str], None] = print
) -> Iterator[int]:
    """A server that is ready, gone after the body.

    Args:
        environment: as infinity.env has it.
        venv: another Python environment than the present server's.
        watch: told its status.

    Yields:
        Its port on loopback.

    Raises:
        ApplianceError: it did not get ready; the message is the server's own.
    """
    port = free_port()
    overrides = [
        *("Restart=no", LONGEST, "ExecStartPost="),
        "OOMScoreAdjust=1000",  # rather this one than the one that serves
    ]
    if venv is not None:
        old = str(Paths().venv)
        command = units.show(units.SERVER, "ExecStart")["ExecStart"]
        argv = command.partition("argv[]=")[2].partition(" ;")[0].replace(old, str(venv), 1)
        overrides += ["ExecStart=", f"ExecStart={argv}"]
        overrides += [f"ExecPaths={venv}/bin/python {venv}/lib"]  # beside the present one's
    environment = {**environment, "INFINITY_PORT": str(port)}
    with _copied(units.SERVER, SERVER, overrides, environment):
        units.start(f"{SERVER}.service", watch)
        yield port


@contextmanager
def _copied(
    original: str, name: str, overrides: list[str], environment: Mapping[str, str]
) -> Iterator[None]:
    units.discard(name)  # of a run that was killed
    try:
        units.copy(original, name, overrides, environment)
        yield
    finally:
        units.discard(name)


def free_port() -> int:
    """A port on loopback that nobody listens on now."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port: int = door.getsockname()[1]
        return port
