"""Clients that go on calling while a machine is changed, and write down every call that fails."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import probe

from machine.instance import Machine

LAST = 5  # calls of each client after the change
ENDED = ("RemoteProtocolError: Server disconnected", "ReadError", "WriteError")
TIMEOUT = 20.0  # seconds for one call


@dataclass
class Calls:
    """What the clients met: ``failed`` says of each failed call who made it and what came."""

    asked: int = 0
    failed: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, who: str, failure: str | None) -> None:
        with self._lock:
            self.asked += 1
            if failure is not None:
                self.failed.append(f"{who}, call {self.asked}: {failure}")


@contextmanager
def steady(
    machine: Machine,
    path: str = "/models",
    *,
    host: str | None = None,
    headers: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
    body: object = None,
    answers: Collection[int] = (200,),
    rate: float = 20.0,
) -> Iterator[Calls]:
    """Call the machine ``rate`` times a second until the body of the ``with`` is over.

    Two clients share the rate: one connects anew for each call, the other keeps its connection
    and, where nginx ends it, asks once more on a new one. (A connection that is ended while a
    request is on its way to it can only be noticed so; curl, urllib3 and OpenAI's client do the
    same. nginx before 1.27.4 knows no way to wait for that.) Both check the name, and trust what
    the certificate's file holds when they call (the other one also what it held before).

    Args:
        machine: whom to call; it must be ready.
        path: with its slash.
        host: the name to call it by; None is the one in its credentials file.
        headers: of every call; None is the API key in the credentials file, unless ``auth`` is.
        auth: user and password.
        body: sent as JSON by POST; None is GET.
        answers: the statuses that are no failure.
        rate: calls a second, of both together.
    """
    mine = probe.credentials(machine)
    name = host or mine.host
    sent = {"Host": name, **(headers if headers is not None else {} if auth else mine.bearer)}

    def call(client: httpx.Client) -> str | None:
        try:
            answer = client.request(
                "GET" if body is None else "POST",
                f"https://{machine.address}{path}",
                headers=sent,
                auth=auth,
                json=body,
                extensions={"sni_hostname": name},
            )
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        return None if answer.status_code in answers else f"{answer.status_code} {answer.text}"

    def anew() -> str | None:
        with _client(_trusting(machine)) as client:
            return call(client)

    calls, over, context = Calls(), threading.Event(), _trusting(machine)
    with _client(context) as client:

        def kept() -> str | None:
            context.load_verify_locations(cadata=_certificate(machine))
            said = call(client)
            return call(client) if said and said.startswith(ENDED) else said

        clients: dict[str, Callable[[], str | None]] = {
            "a new connection": anew,
            "a kept connection": kept,
        }
        threads = [
            threading.Thread(target=_go_on, args=(who, ask, calls, over, len(clients) / rate))
            for who, ask in clients.items()
        ]
        for thread in threads:
            thread.start()
        try:
            yield calls
        finally:
            over.set()
            for thread in threads:
                thread.join()


def _go_on(
    who: str, ask: Callable[[], str | None], calls: Calls, over: threading.Event, pause: float
) -> None:
    while not over.wait(pause):
        calls.note(who, ask())
    for _ in range(LAST):
        calls.note(who, ask())


def _certificate(machine: Machine) -> str:
    return (machine.root / probe.PATHS.certificate.relative_to("/")).read_text("ascii")


def _trusting(machine: Machine) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=_certificate(machine))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not hold the root
    return context


def _client(context: ssl.SSLContext) -> httpx.Client:
    return httpx.Client(verify=context, timeout=TIMEOUT, trust_env=False)
