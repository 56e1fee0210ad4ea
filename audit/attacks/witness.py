"""A client with the key, and a load balancer's probe: what they notice, with times."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from machine.instance import Machine

RATES = {"key": 40.0, "healthz": 20.0}  # a second, at most
RENEWED = 20  # requests with the key on one connection: nginx's workers take turns
TIMEOUT = 30.0  # seconds


@dataclass
class Noticed:
    """Seconds of each answer, and what was no 200."""

    key: list[float] = field(default_factory=list)
    healthz: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __iadd__(self, more: Noticed) -> Self:
        self.key += more.key
        self.healthz += more.healthz
        self.failed += more.failed
        return self


def percentile(seconds: list[float], part: float) -> float:
    """The smallest that at least ``part`` of them do not exceed."""
    return sorted(seconds)[math.ceil(part * len(seconds)) - 1]


@dataclass(frozen=True)
class Witness:
    """Calls one machine; made once, so that watching starts at once."""

    address: str
    host: str
    key: str
    model: str
    context: ssl.SSLContext

    @classmethod
    def of(cls, machine: Machine) -> Witness:
        certificate = (machine.root / "etc/ssl/infinity/infinity.crt").read_text("ascii")
        context = ssl.create_default_context(cadata=certificate)
        context.check_hostname = False  # it is reached by its address
        return cls(
            machine.address,
            machine.credential("INFINITY_HOST"),
            machine.credential("INFINITY_API_KEY"),
            machine.credential("INFINITY_MODEL"),
            context,
        )

    def watch(self, seconds: float) -> Noticed:
        """Embed a short text again and again, and probe on a new connection each time."""
        noticed, over = Noticed(), time.monotonic() + seconds
        threads = [
            threading.Thread(
                target=_go_on, args=(each, RATES[name], getattr(noticed, name), noticed, over)
            )
            for name, each in (("key", self._embedder()), ("healthz", self._probe))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return noticed

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.address, timeout=TIMEOUT, context=self.context)

    def _probe(self) -> int:
        with contextlib.closing(self._connection()) as connection:
            connection.request("GET", "/healthz", headers={"Host": self.host})
            return connection.getresponse().status

    def _embedder(self) -> Callable[[], int]:
        connection, calls = self._connection(), 0
        body = json.dumps({"model": self.model, "input": ["Where does the time go?"]})
        headers = {
            "Host": self.host,
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
        }

        def embed() -> int:
            nonlocal calls
            if calls % RENEWED == 0:
                connection.close()  # opened again by the request
            calls += 1
            connection.request("POST", "/v1/embeddings", body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status

        return embed


def _go_on(
    ask: Callable[[], int], rate: float, times: list[float], noticed: Noticed, over: float
) -> None:
    while time.monotonic() < over:
        began = time.perf_counter()
        try:
            status = ask()
        except (OSError, http.client.HTTPException) as error:
            noticed.failed.append(f"{type(error).__name__}: {error}")
            return
        took = time.perf_counter() - began
        if status != http.client.OK:
            noticed.failed.append(f"status {status}")
        times.append(took)
        time.sleep(max(0.0, 1 / rate - took))
