"""A machine as someone prepares it who lets existing clients and routers loose on it."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import probe
from encoder_support import save_bert
from serving_model import lay_out

from appliance.paths import Paths
from machine.instance import Machine

ENV_FILE = "/etc/infinity/infinity.env"
CACHE = "var/lib/infinity/hf"
# The served names of a router's own example; small models stand in for what they name.
EMBEDDER, RERANKER = "bge-m3", "bge-reranker-large"
MADE = "made/reranker"
DIMENSIONS = 384


@dataclass(frozen=True)
class Endpoint:
    """What a client is told, and the machine behind it.

    ``url`` has no slash at its end. ``certificate`` is the instance's, copied to here.
    """

    machine: Machine
    host: str
    url: str
    key: str = field(repr=False)
    login: tuple[str, str] = field(repr=False)
    certificate: Path

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


def settings(model: str) -> dict[str, str]:
    """What is written into infinity.env: two models, and every name that clients know."""
    return {
        "MODEL": f"{model};{MADE}",
        "INFINITY_SERVED_MODEL_NAME": f"{EMBEDDER};{RERANKER}",
        "MODEL_ALIASES": f"text-embedding-3-small;text-embedding-ada-002;{MADE}={RERANKER}",
        # A router's guide asks for it; here both paths are served whatever it says.
        "INFINITY_URL_PREFIX": "/v1",
    }


@contextmanager
def prepared(machine: Machine, folder: Path) -> Iterator[Endpoint]:
    """Have a machine serve the two models, and as before in the end.

    Args:
        machine: a ready one.
        folder: an empty one, for the certificate and the second model.
    """
    said = probe.credentials(machine)
    kept = machine.exec(["cat", ENV_FILE]).stdout
    lay_in(machine, folder / "home")
    certificate = folder / "infinity.crt"
    certificate.write_text(machine.exec(["cat", str(Paths().certificate)]).stdout)
    new = settings(said.model)
    lines = [line for line in kept.splitlines() if line.partition("=")[0] not in new]
    lines += [f"{name}={value}" for name, value in new.items()]
    try:
        serve(machine, "\n".join(lines) + "\n")
        yield Endpoint(
            machine,
            said.host,
            said.url.rstrip("/"),
            said.api_key,
            (said.username, said.password),
            certificate,
        )
    finally:
        serve(machine, kept)
        shutil.rmtree(machine.root / CACHE / "hub" / f"models--{MADE.replace('/', '--')}")


def lay_in(machine: Machine, home: Path) -> None:
    """Carry a model into the machine's cache, as an operator does who has no internet there."""
    save_bert(lay_out(home, MADE), "BertForSequenceClassification", num_labels=1)
    shutil.copytree(home, machine.root / CACHE, dirs_exist_ok=True)
    machine.exec(["chown", "-R", "infinity:", f"/{CACHE}"])


def serve(machine: Machine, environment: str) -> None:
    machine.exec(["tee", ENV_FILE], environment)
    machine.exec(["systemctl", "restart", "infinity.service"])
    machine.wait_ready()


def lookup(host: str, address: str) -> Callable[..., Any]:
    """``socket.getaddrinfo`` as if a DNS record of ``host`` pointed at ``address``."""
    real = socket.getaddrinfo

    def found(name: str | bytes | None, *rest: Any, **named: Any) -> Any:  # noqa: ANN401
        wanted = name.decode() if isinstance(name, bytes) else name
        return real(address if wanted == host else name, *rest, **named)

    return found
