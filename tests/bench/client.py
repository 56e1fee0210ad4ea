"""A client as cheap as the standard library allows, so that it measures the server."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Sequence

# uvicorn closes a connection that was silent for 5 s.
_IDLE = 2.0


class Client:
    """One keep-alive connection to a server of embeddings."""

    def __init__(self, port: int, model: str) -> None:
        self._headers = {"Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self._port, self._model = port, model
        self._used = 0.0

    def embed(self, texts: Sequence[str]) -> float:
        """Seconds until the whole answer for these texts is here.

        Raises:
            OSError: no answer, or one that is not 200.
        """
        if time.monotonic() - self._used > _IDLE:
            self._connection.close()  # opened again by the request
        body = json.dumps({"model": self._model, "input": list(texts)})
        start = time.perf_counter()
        try:
            self._connection.request("POST", "/embeddings", body, self._headers)
            answer = self._connection.getresponse()
            answer.read()
        except http.client.HTTPException as error:
            self._connection.close()
            raise OSError(str(error)) from error
        if answer.status != http.client.OK:
            raise OSError(f"status {answer.status}")
        self._used = time.monotonic()
        return time.perf_counter() - start

    def clone(self) -> Client:
        return Client(self._port, self._model)


def query_time(client: Client, queries: Sequence[str]) -> float:
    """Median seconds of queries sent one after another."""
    return statistics.median(client.embed([query]) for query in queries)


def query_rate(client: Client, queries: Sequence[str], clients: int) -> float:
    """Queries a second with so many clients, each sending its share one after another."""
    connections = [client.clone() for _ in range(clients)]

    def send(number: int) -> None:
        for query in queries[number::clients]:
            connections[number].embed([query])

    threads = [threading.Thread(target=send, args=(number,)) for number in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(queries) / (time.perf_counter() - start)


def interrupted_query_time(client: Client, bulk: Sequence[str], query: str, count: int) -> float:
    """Median seconds of queries sent while one large request is being served."""
    load = threading.Thread(target=client.clone().embed, args=(bulk,))
    load.start()
    time.sleep(0.5)
    times: list[float] = []
    while load.is_alive() and len(times) < count:
        times.append(client.embed([query]))
    load.join()
    return statistics.median(times)
