"""A steady load of OpenAI's own client through the balancer, each request and attempt written down.

The client is as it comes: it asks twice more when a server fails or a connection ends. So there are
calls, which are what an application sees, and attempts, which are what went over the wire.
"""

from __future__ import annotations

import math
import ssl
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import httpx2
import openai

from tests.fleet.balancer import Balancer

CLIENTS = 4
PAUSE = 0.5  # seconds between a client's calls
LARGE = 8  # every so many calls there is one of so many passages
PATIENCE = 20.0  # seconds for an attempt
DIMENSIONS = 384


@dataclass(frozen=True)
class Event:
    """A call or an attempt; ``failure`` is "" when it went well. Times are time.monotonic()."""

    id: str
    began: float
    ended: float
    failure: str


@dataclass
class Load:
    """What the clients have met so far; ``key`` is the one they use from now on."""

    balancer: Balancer
    host: str
    model: str
    key: str = field(repr=False)
    patience: float = PATIENCE
    calls: list[Event] = field(default_factory=list)
    attempts: list[Event] = field(default_factory=list)

    def client(self, key: str, retries: int = openai.DEFAULT_MAX_RETRIES) -> openai.OpenAI:
        """Another client of the fleet, whose attempts are written down as well."""
        return openai.OpenAI(
            base_url=f"https://{self.host}/v1",
            api_key=key,
            timeout=self.patience,
            max_retries=retries,
            http_client=httpx2.Client(transport=_Transport(self), timeout=self.patience),
        )

    def since(self, began: float) -> tuple[list[Event], list[Event]]:
        """The calls and the attempts that began then or later."""
        calls = [call for call in self.calls if call.began >= began]
        return calls, [attempt for attempt in self.attempts if attempt.began >= began]


class _Transport(httpx2.HTTPTransport):
    """Leads the name to the balancer, checks its certificate, writes each attempt down."""

    def __init__(self, load: Load) -> None:
        super().__init__(verify=ssl.create_default_context(cafile=load.balancer.certificate))
        self.load = load

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["X-Request-ID"] = name = uuid.uuid4().hex
        request.extensions["sni_hostname"] = self.load.host
        request.url = request.url.copy_with(host="127.0.0.1", port=self.load.balancer.port)
        began, failure = time.monotonic(), ""
        try:
            answer = super().handle_request(request)
            answer.read()
            if answer.status_code != HTTPStatus.OK:
                failure = f"{answer.status_code} {answer.text[:200]}"
        except httpx2.HTTPError as error:
            failure = f"{type(error).__name__} {error}"
            raise
        finally:
            self.load.attempts.append(Event(name, began, time.monotonic(), failure))
        return answer


@contextmanager
def steady(load: Load) -> Iterator[Load]:
    """Four clients call, each twice a second or as fast as it is answered, while the body runs."""
    over = threading.Event()
    threads = [
        threading.Thread(target=_go_on, args=(load, number, over)) for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _go_on(load: Load, number: int, over: threading.Event) -> None:
    client = load.client(load.key)
    turn = number
    while not over.wait(PAUSE):
        turn += 1
        if client.api_key != load.key:
            client.api_key = load.key
        _call(load, client, LARGE if turn % LARGE == 0 else 1)
    client.close()


def _call(load: Load, client: openai.OpenAI, passages: int) -> None:
    texts = [f"Passage {number} of a steady load. " * 8 for number in range(passages)]
    name, began, failure = uuid.uuid4().hex, time.monotonic(), ""
    try:
        vectors = client.embeddings.create(model=load.model, input=texts).data
        if not _right([vector.embedding for vector in vectors], passages):
            failure = "wrong vectors"
    except openai.OpenAIError as error:
        failure = f"{type(error).__name__} {error}"
    load.calls.append(Event(name, began, time.monotonic(), failure))


def _right(vectors: list[list[float]], passages: int) -> bool:
    """As many as asked for, of the right size and of length 1."""
    return len(vectors) == passages and all(
        len(vector) == DIMENSIONS and math.isclose(math.hypot(*vector), 1, abs_tol=1e-3)
        for vector in vectors
    )
