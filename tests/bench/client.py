"""A client as cheap as the standard library allows, so that it measures the server."""

from __future__ import annotations

import http.client
import json
import socket
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

# uvicorn closes a connection that was silent for 5 s.
_IDLE = 2.0
_UNDER_WAY = 1.0  # seconds after which a large request has been read and is being served


class Client:
    """One keep-alive connection to a server of embeddings."""

    def __init__(self, port: int, model: str, path: str = "/embeddings") -> None:
        self._headers = {"Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self._port, self._model, self._path = port, model, path
        self._used = 0.0

    def embed(self, texts: Sequence[str]) -> float:
        """Seconds until the whole answer for these texts is here.

        Raises:
            OSError: no answer, or one that is not 200.
        """
        return self._ask(texts)[0]

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """What the server makes of these texts; raises as ``embed``."""
        answer: dict[str, Any] = json.loads(self._ask(texts)[1])
        return [item["embedding"] for item in answer["data"]]

    def _ask(self, texts: Sequence[str]) -> tuple[float, bytes]:
        if time.monotonic() - self._used > _IDLE:
            self._connection.close()  # opened again by the request
        body = json.dumps({"model": self._model, "input": list(texts)})
        start = time.perf_counter()
        try:
            self._connection.request("POST", self._path, body, self._headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except http.client.HTTPException as error:
            self._connection.close()
            raise OSError(str(error)) from error
        taken = time.perf_counter() - start
        if answer.status != http.client.OK:
            raise OSError(f"status {answer.status}: {content[:200]!r}")
        self._used = time.monotonic()
        return taken, content

    def hang_up(self) -> None:
        """End the connection, also under an answer that another thread waits for."""
        if self._connection.sock is not None:
            with suppress(OSError):  # the server was first
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def clone(self) -> Client:
        """Another connection to the same server."""
        return Client(self._port, self._model, self._path)


def query_time(client: Client, queries: Sequence[str]) -> float:
    """Median seconds of queries sent one after another."""
    return statistics.median(client.embed([query]) for query in queries)


def request_rate(client: Client, requests: Sequence[Sequence[str]], clients: int) -> float:
    """Requests a second with so many clients, each sending its share one after another."""
    connections = [client.clone() for _ in range(clients)]

    def send(number: int) -> None:
        for texts in requests[number::clients]:
            connections[number].embed(texts)

    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(send, range(clients)))  # raises what a client raised
    return len(requests) / (time.perf_counter() - start)


def interrupted_query_time(client: Client, bulk: Sequence[str], query: str, count: int) -> float:
    """Median seconds of queries sent while one large request is being served.

    The large one is given up when so many queries have their answers.

    Raises:
        OSError: it was over before the first of them, so that nothing was measured.
    """
    large = client.clone()

    def load() -> None:
        with suppress(OSError):
            large.embed(bulk)

    loading = threading.Thread(target=load)
    loading.start()
    time.sleep(_UNDER_WAY)
    times: list[float] = []
    try:
        while loading.is_alive() and len(times) < count:
            times.append(client.embed([query]))
    finally:
        large.hang_up()
        loading.join()
    if not times:
        raise OSError("The large request was over before the first query.")
    return statistics.median(times)
