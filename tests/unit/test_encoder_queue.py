"""The order in which texts go through the encoder."""

from __future__ import annotations

import random

from appliance.serving.encoder_queue import Request, Waiting


def request(lengths: list[int], arrived: float) -> Request:
    return Request.of([f"{arrived}/{i}" for i in range(len(lengths))], lengths, arrived)


def waiting(*requests: Request) -> Waiting:
    queue = Waiting()
    for one in requests:
        queue.add(one)
    return queue


def test_query_overtakes_the_bulk_load_that_came_first() -> None:
    bulk, query = request([100] * 500, 0.0), request([12], 1.0)
    queue = waiting(bulk, query)
    assert queue.next_batch(512) == [(query, 0)]


def test_query_is_not_put_into_a_chunk_of_the_bulk_load() -> None:
    """It would wait for the whole chunk instead of its own milliseconds."""
    queue = waiting(request([100] * 500, 0.0), request([12], 1.0))
    assert sum(r.lengths[i] for r, i in queue.next_batch(512)) == 12


def test_queries_share_a_batch() -> None:
    queries = [request([12], float(i)) for i in range(16)]
    assert [r for r, _ in waiting(*queries).next_batch(512)] == queries


def test_bulk_load_is_served_once_it_has_waited_its_due() -> None:
    bulk = request([100] * 20, 0.0)  # 2,000 tokens: due after a second
    queue = waiting(bulk, *[request([12], 0.5 + i / 10) for i in range(20)])
    served = []
    while queue:
        served.append({r.size for r, _ in queue.next_batch(512)})
    assert {2000} in served[:2]


def test_batch_holds_no_more_tokens_than_a_chunk() -> None:
    queue = waiting(request([100, 300, 50, 7] * 40, 0.0))
    while batch := queue.next_batch(512):
        assert sum(r.lengths[i] for r, i in batch) <= 512


def test_text_longer_than_a_chunk_goes_alone() -> None:
    one = request([900, 3], 0.0)
    queue = waiting(one)
    assert [queue.next_batch(512) for _ in range(3)] == [[(one, 1)], [(one, 0)], []]


def test_every_text_is_handed_out_exactly_once() -> None:
    draw = random.Random(0)  # noqa: S311 - test data, not a secret
    requests = [
        request([draw.randint(1, 600) for _ in range(draw.randint(1, 30))], draw.random())
        for _ in range(50)
    ]
    queue = waiting(*requests)
    seen: list[tuple[int, int]] = []
    while batch := queue.next_batch(512):
        seen += [(id(r), i) for r, i in batch]
    assert len(queue) == 0
    assert sorted(seen) == sorted((id(r), i) for r in requests for i in range(len(r.pieces)))


def test_dropped_request_is_not_handed_out() -> None:
    gone, stays = request([5, 5], 0.0), request([6], 1.0)
    queue = waiting(gone, stays)
    queue.drop([gone])
    assert queue.next_batch(512) == [(stays, 0)]
    assert queue.next_batch(512) == []
