"""The load balancer that stands in for AWS's: what it does to targets, tried on two of them."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from test_cloudformation import Stack

from tests.fleet import balancer as subject
from tests.fleet.balancer import Balancer

NAME = "embeddings.example.com"


@dataclass
class Target:
    """An HTTPS server at an address of its own."""

    address: str
    port: int
    ready: bool = True
    probes: list[str] = field(default_factory=list)
    asked: int = 0
    go_on: threading.Event = field(default_factory=threading.Event)


@contextmanager
def target(address: str, certificate: Path) -> Iterator[Target]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status = 200
            if self.path == "/readyz":
                made.probes.append(self.headers["Host"])
                status = 200 if made.ready else 503
            else:
                made.asked += 1
                if self.path == "/slow":
                    made.go_on.wait(30)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer((address, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    made = Target(address, server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield made
    finally:
        made.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Balancer, Target, Target]]:
    with (
        subject.balancer(tmp_path, NAME) as made,
        target("127.0.0.2", tmp_path / "listener.pem") as one,
        target("127.0.0.3", tmp_path / "listener.pem") as other,
    ):
        yield made, one, other


def get(balancer: Balancer, path: str = "/") -> int:
    context = ssl.create_default_context(cafile=balancer.certificate)
    connection: Any = http.client.HTTPSConnection("127.0.0.1", balancer.port, timeout=60)
    connection.sock = context.wrap_socket(_plain(balancer), server_hostname=NAME)
    connection.request("GET", path, headers={"Host": NAME, "X-Request-ID": path})
    status: int = connection.getresponse().status
    connection.close()
    return status


def _plain(balancer: Balancer) -> Any:  # noqa: ANN401 - a socket
    import socket  # noqa: PLC0415 - beside its only use

    return socket.create_connection(("127.0.0.1", balancer.port), 60)


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_its_times_are_the_templates() -> None:
    targets = Stack("fleet.yaml").properties("Targets")
    attributes = {one["Key"]: one["Value"] for one in targets["TargetGroupAttributes"]}
    listener = Stack("fleet.yaml").properties("Balancer")["LoadBalancerAttributes"]
    idle = next(one["Value"] for one in listener if one["Key"] == "idle_timeout.timeout_seconds")
    assert (
        targets["HealthCheckIntervalSeconds"],
        targets["HealthCheckTimeoutSeconds"],
        targets["HealthyThresholdCount"],
        targets["UnhealthyThresholdCount"],
        int(attributes["deregistration_delay.timeout_seconds"]),
        int(idle),
        attributes["load_balancing.algorithm.type"],
    ) == (
        subject.PROBE_INTERVAL,
        subject.PROBE_TIMEOUT,
        subject.HEALTHY,
        subject.UNHEALTHY,
        subject.DEREGISTRATION_DELAY,
        subject.IDLE_TIMEOUT,
        "least_outstanding_requests",
    )


def test_a_target_gets_nothing_before_it_has_answered_twice(
    two: tuple[Balancer, Target, Target],
) -> None:
    balancer, one, other = two
    balancer.register(one.address, one.port)
    eventually(lambda: balancer.healthy(one.address))
    assert len(one.probes) == subject.HEALTHY
    other.ready = False
    balancer.register(other.address, other.port)
    eventually(lambda: len(other.probes) > 1)
    assert [get(balancer) for _ in range(6)] == [200] * 6
    assert (one.asked, other.asked) == (6, 0)
    other.ready = True
    eventually(lambda: balancer.healthy(other.address))
    assert [get(balancer) for _ in range(6)] == [200] * 6
    assert other.asked > 0
    assert set(other.probes) == {other.address}


def test_with_no_healthy_target_all_are_asked(two: tuple[Balancer, Target, Target]) -> None:
    balancer, one, other = two
    for each in (one, other):
        each.ready = False
        balancer.register(each.address, each.port)
    assert [get(balancer) for _ in range(6)] == [200] * 6
    assert one.asked > 0
    assert other.asked > 0


def test_a_target_that_drains_finishes_what_it_has(two: tuple[Balancer, Target, Target]) -> None:
    balancer, one, other = two
    balancer.register(one.address, one.port)
    eventually(lambda: balancer.healthy(one.address))
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(get(balancer, "/slow")))
    asking.start()
    eventually(lambda: one.asked == 1)
    balancer.register(other.address, other.port)
    eventually(lambda: balancer.healthy(other.address))
    finished: list[bool] = []
    draining = threading.Thread(target=lambda: finished.append(balancer.deregister(one.address)))
    draining.start()
    eventually(lambda: balancer.states()[one.address].startswith("DRAIN"))
    assert [get(balancer) for _ in range(4)] == [200] * 4
    assert (one.asked, other.asked) == (1, 4)
    one.go_on.set()
    asking.join()
    draining.join()
    assert (answers, finished) == ([200], [True])
    assert balancer.log()["/slow"].target == one.address


def test_what_does_not_finish_in_time_is_told(two: tuple[Balancer, Target, Target]) -> None:
    balancer, one, _ = two
    balancer.register(one.address, one.port)
    eventually(lambda: balancer.healthy(one.address))
    asking = threading.Thread(target=lambda: get(balancer, "/slow"))
    asking.start()
    eventually(lambda: one.asked == 1)
    assert not Balancer(balancer.folder, balancer.port, shortened=600).deregister(one.address)
    one.go_on.set()
    asking.join()
