"""Whether a server's memory stays flat over many requests."""

from __future__ import annotations

from tests.bench import texts
from tests.bench.client import request_rate
from tests.bench.servers import Server

_CLIENTS, _PARTS = 16, 20


def soak(server: Server, requests: int) -> list[float]:
    """Megabytes the server holds after each twentieth of so many requests.

    From 16 clients: queries, and a passage of mixed length in every 25.
    """
    queries, passages = texts.short(24 * 64, seed=9), texts.mixed(64, seed=9)
    mixture = [
        [item]
        for i, passage in enumerate(passages)
        for item in (*queries[24 * i : 24 * (i + 1)], passage)
    ]
    each = requests // _PARTS
    sent = (mixture * (each // len(mixture) + 1))[:each]
    client, held = server.client(), []
    for _ in range(_PARTS):
        request_rate(client, sent, _CLIENTS)
        held.append(server.resident())
    return held


def growth(held: list[float]) -> float:
    """The largest change from what was held after a tenth of the requests, as a fraction."""
    start = held[_PARTS // 10 - 1]
    return max((megabytes / start - 1 for megabytes in held[_PARTS // 10 :]), key=abs)
