"""The soak's own judgement: it sees what fails, swaps, grows or slows."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np
import pytest

from tests.soak.load import Sent
from tests.soak.memory import Sample
from tests.soak.rows import rows
from tests.soak.run import Soak
from tests.soak.trace import Call, Values, deck, differ, values

PAIR = Call("batch of 2", "/v1/embeddings", b"", 2)
MINUTES = 2


def judged(
    *, took: Sequence[float] = (1.0,) * 9, megabytes: Sequence[float] = (500.0,) * 9, bad: str = ""
) -> dict[str, bool]:
    """Whether each promise holds for two minutes in which this was measured."""
    load = [Sent("query", float(i), seconds, bad) for i, seconds in enumerate(took)]
    memory = [Sample(MINUTES * 60 * i / len(megabytes), mb) for i, mb in enumerate(megabytes)]
    found = Soak(0.0, MINUTES * 60.0, [10.0], [9.0], [], load, memory)
    return {row.name.partition(":")[0]: row.holds for row in rows(found, MINUTES, 0.9)}


def test_two_steady_minutes_hold() -> None:
    assert all(judged().values())


def test_a_failed_request_is_seen() -> None:
    assert not judged(bad="status 503")["failed requests"]


def test_memory_that_grows_after_the_warm_up_is_seen_and_before_is_not() -> None:
    assert not judged(megabytes=[500] * 8 + [520])["memory"]
    assert not judged(megabytes=[500] * 8 + [480])["memory"]
    assert not judged(megabytes=[500.0 + 3 * i for i in range(40)])["memory"]
    assert judged(megabytes=[*[400.0] * 10, *[500.0] * 10])["memory"]


def test_answers_that_become_slower_are_seen() -> None:
    assert not judged(took=[1.0] * 6 + [1.5] * 3)["latency"]


def answer(*vectors: Values) -> bytes:
    data = [
        {"index": i, "embedding": base64.b64encode(vector.tobytes()).decode()}
        for i, vector in enumerate(vectors)
    ]
    return json.dumps({"data": data}).encode()


def test_an_answer_of_another_request_is_seen() -> None:
    one, two = np.eye(2, dtype=np.float32)
    assert differ(values(PAIR, answer(one, two)), np.stack([one, two])) == 0
    assert differ(values(PAIR, answer(two, one)), np.stack([one, two])) == 1


def test_a_missing_or_broken_vector_is_no_answer() -> None:
    one = np.ones(2, np.float32)
    with pytest.raises(ValueError, match="1 answers for 2"):
        values(PAIR, answer(one))
    with pytest.raises(ValueError, match="not all are numbers"):
        values(PAIR, answer(one, one * np.float32("nan")))


def test_every_deal_costs_the_same_and_reranks_where_that_is_served() -> None:
    assert deck("m", None) == deck("m", None)
    assert {call.kind for call in deck("m", "r")} - {call.kind for call in deck("m", None)} == {
        "rerank"
    }
