"""One kept connection through TLS, nginx and the key, as cheap as the standard library allows."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any

from machine.instance import Machine
from tests.soak.trace import Call

PATIENCE = 600.0  # seconds, as OpenAI's SDK has it


@dataclass(frozen=True)
class Door:
    """What a client must know of a machine; made once, for all of them."""

    address: str
    name: str
    headers: dict[str, str]
    context: ssl.SSLContext

    @classmethod
    def of(cls, machine: Machine) -> Door:
        pem = machine.exec(["cat", "/etc/ssl/infinity/infinity.crt"]).stdout
        context = ssl.create_default_context(cadata=pem)
        name = machine.credential("INFINITY_HOST")
        headers = {
            "Host": name,
            "Authorization": f"Bearer {machine.credential('INFINITY_API_KEY')}",
            "Content-Type": "application/json",
        }
        return cls(machine.address, name, headers, context)


class _Connection(http.client.HTTPSConnection):
    """To an address, with the name that the certificate is checked for."""

    def __init__(self, door: Door) -> None:
        super().__init__(door.address, timeout=PATIENCE, context=door.context)
        self._door = door

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._door.context.wrap_socket(self.sock, server_hostname=self._door.name)


class Client:
    """Sends one call after the other and never asks twice."""

    def __init__(self, door: Door) -> None:
        self._headers = door.headers
        self._connection = _Connection(door)

    def send(self, call: Call) -> bytes:
        """The body of the answer.

        Raises:
            OSError: no answer, or one that is not 200.
        """
        return self._ask("POST", call.path, call.body)

    def models(self) -> Any:  # noqa: ANN401 - JSON
        """What ``GET /models`` answers."""
        return json.loads(self._ask("GET", "/v1/models", None))

    def close(self) -> None:
        self._connection.close()

    def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        try:
            self._connection.request(method, path, body, self._headers)
            answer = self._connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise OSError(f"{type(error).__name__}: {error}") from error
        if answer.status != http.client.OK:
            raise OSError(f"status {answer.status}: {raw[:200].decode(errors='replace')}")
        return raw
