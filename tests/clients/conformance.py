"""Requests made up from an OpenAPI document and sent, each answer held against that document."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from typing import Any

import requests
import schemathesis
from gate_harness import KEY
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
DONE = 200
WORKERS = 2  # making up a request takes more of a CPU than answering it
A_TRY = 0.2  # s between requests with a wrong login; the gate compares 10 a second of an address


@dataclass(frozen=True)
class Job:
    """Requests for one operation, all of them good or all of them bad.

    ``asks`` is whether only the demand for credentials is tried, else everything but that.
    """

    method: str
    path: str
    mode: GenerationMode
    count: int
    asks: bool = False


@dataclass(frozen=True)
class Api:
    """Where the document is, and the certificate to check, if any."""

    url: str
    certificate: str = ""

    def document(self) -> schemathesis.BaseSchema:
        return _open(self)[0]

    def check(self, job: Job) -> int:
        """Make up and send a job's requests; their number.

        Raises:
            AssertionError: an answer is not as the document says, or a good request was refused.
        """
        document, session = _open(self)
        which = (
            {"checks": [ignored_auth]}
            if job.asks
            else {"excluded_checks": [ignored_auth, positive_data_acceptance]}
        )
        statuses: Counter[int] = Counter()

        @settings(
            max_examples=job.count,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
            phases=[Phase.generate],
        )
        @given(case=document[job.path][job.method].as_strategy(generation_mode=job.mode))
        def send(case: schemathesis.Case[Any]) -> None:
            if job.asks:
                time.sleep(A_TRY)
            answer = case.call_and_validate(session=session, **which)  # type: ignore[arg-type]
            statuses[answer.status_code] += 1
            if job.mode is POSITIVE and answer.status_code != DONE:
                # Which text is too long to be left whole depends on the model: no schema says it.
                assert isinstance(case.body, dict), answer.text
                assert case.body.get("truncate") is False, answer.text
                assert answer.json()["error"]["code"] == "context_length_exceeded"

        try:
            send()
        except FailureGroup as failure:  # it does not travel between processes
            raise AssertionError(str(failure)) from None
        assert DONE in statuses or job.mode is NEGATIVE, statuses
        return sum(statuses.values())

    def check_all(self, jobs: Sequence[Job]) -> int:
        """Several jobs at a time; the number of requests."""
        with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
            return sum(pool.map(self.check, jobs))


@cache
def _open(api: Api) -> tuple[schemathesis.BaseSchema, requests.Session]:
    """The document, and a session that keeps its connection and sends the key."""
    session = requests.Session()
    session.trust_env = False
    session.headers["Authorization"] = f"Bearer {KEY}"
    raw = session.get(f"{api.url}/openapi.json", verify=api.certificate or True).json()
    document = schemathesis.openapi.from_dict(raw)
    document.config.update(base_url=api.url, tls_verify=api.certificate or True)
    return document, session
