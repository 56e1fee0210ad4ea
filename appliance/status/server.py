"""The model server, asked on loopback: what it serves, whether it is ready, what it has done."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping

from appliance.errors import ApplianceError
from appliance.status import clock
from appliance.status.report import Model, Requests, Served

PATIENCE = 1.5  # seconds
LARGEST = 4 * 1024 * 1024  # bytes of an answer
_LINE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')
# Work that clients ask for; the rest is looking.
_WORK = frozenset({"/embeddings", "/rerank", "/classify"})

Sample = tuple[str, Mapping[str, str], float]


def ask(port: int, path: str) -> tuple[int, bytes]:
    """Status and body of a GET.

    Raises:
        ApplianceError: no answer.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read(LARGEST)
    except TimeoutError:
        raise ApplianceError(
            f"The model server did not answer within {PATIENCE:g} s.",
            "`sudo systemctl restart infinity.service`",
        ) from None
    except (OSError, http.client.HTTPException):
        raise ApplianceError(
            f"Nothing answers on 127.0.0.1:{port}.", "`sudo systemctl status infinity.service`"
        ) from None
    finally:
        connection.close()


def model(port: int, configured: str | None) -> Model:
    """What is served. A server that is silent is down, and no error."""
    try:
        ready = ask(port, "/readyz")[0] == http.client.OK
        status, body = ask(port, "/models")
        listed = json.loads(body)["data"] if status == http.client.OK else []
        served = tuple(
            Served(str(each["id"]), tuple(map(str, each.get("capabilities", ()))))
            for each in listed
        )
    except ApplianceError:
        return Model(configured, (), "down")
    return Model(configured, served, "ready" if ready else "loading")


def requests(port: int) -> Requests:
    """What the server's metrics count.

    Raises:
        ApplianceError: it does not answer.
    """
    return count(samples(ask(port, "/metrics")[1].decode("utf-8", "replace")))


def samples(page: str) -> list[Sample]:
    """Read Prometheus' text format."""
    found: list[Sample] = []
    for line in page.splitlines():
        if match := _LINE.fullmatch(line):
            labels = dict(_LABEL.findall(match["labels"] or ""))
            found.append((match["name"], labels, float(match["value"])))
    return found


def count(page: list[Sample]) -> Requests:
    """Sum up: requests for work by the kind of answer, and the time they took."""
    answered = [
        (labels["status"], int(value))
        for name, labels, value in page
        if name == "infinity_requests_total" and labels.get("route") in _WORK
    ]
    begun = [value for name, _, value in page if name == "process_start_time_seconds"]
    p50, p99 = (quantile(page, share) for share in (0.5, 0.99))

    def of(kind: str) -> int:
        return sum(number for status, number in answered if status[0] == kind)

    return Requests(
        since=clock.stamp(begun[0]) if begun else "",
        total=sum(number for _, number in answered),
        succeeded=of("2"),
        refused=of("4"),
        failed=of("5"),
        p50_ms=p50,
        p99_ms=p99,
    )


def quantile(page: list[Sample], share: float) -> float | None:
    """Milliseconds within which this share of the requests for work was answered.

    Interpolated in the histogram's bucket, as Prometheus does; of the last, open bucket only its
    lower bound is known.
    """
    below: dict[float, float] = {}
    for name, labels, value in page:
        if name == "infinity_request_seconds_bucket" and labels.get("route") in _WORK:
            bound = float(labels["le"])
            below[bound] = below.get(bound, 0.0) + value
    total = max(below.values(), default=0.0)
    if total == 0:
        return None
    lower, before = 0.0, 0.0
    for bound in sorted(below):
        if below[bound] >= share * total:
            inside = (share * total - before) / (below[bound] - before)
            upper = lower if bound == float("inf") else bound
            return round(1000 * (lower + inside * (upper - lower)), 1)
        lower, before = bound, below[bound]
    return None
