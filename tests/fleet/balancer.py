"""HAProxy as AWS's Application Load Balancer behaves in front of the stack's target group.

* It asks /readyz of each target over HTTPS without checking the certificate and without SNI, with
  the target's address as Host. A new target gets nothing before it has answered.
* It sends a request once: it tries no other target, whatever comes of it.
* With no healthy target it sends requests to all of them ("fail open").
* A target that is deregistered gets nothing new, and finishes what it has within a delay.
* It keeps connections to targets and shares them between clients.

Its times are the template's divided by ``SHORTENED``, so that a rehearsal does not take an hour.
How long it waits for a target to connect and for a probe's answer is not shortened.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance import tls
from appliance.errors import ApplianceError
from machine import host

SHORTENED = 5
# Seconds and counts as in cloudformation/fleet.yaml; the connection's is the balancer's own.
PROBE_INTERVAL, PROBE_TIMEOUT, HEALTHY, UNHEALTHY = 10, 5, 2, 2
DEREGISTRATION_DELAY, IDLE_TIMEOUT, CONNECTION_TIMEOUT = 60, 300, 10
TARGETS, OPEN = "targets", "fail-open"
PROGRAM = {"haproxy": "haproxy"}

_CONFIGURATION = """
global
    log stdout format raw local0
    stats socket {folder}/admin.sock mode 600 level admin
defaults
    mode http
    log global
    retries 0
    http-reuse always
    timeout connect {connect}ms
    timeout client {idle}ms
    timeout server {idle}ms
    timeout check {probe}ms
frontend listener
    bind fd@{listener} ssl crt {folder}/listener.pem alpn http/1.1
    declare capture request len 40
    http-request capture req.hdr(X-Request-ID) id 0
    http-request set-header X-Forwarded-Proto https
    option forwardfor
    log-format '{{"id":"%[capture.req.hdr(0)]","target":"%s","status":%ST,"ended":"%ts"}}'
    use_backend {open} if {{ nbsrv({targets}) eq 0 }}
    default_backend {targets}
backend {targets}
    balance leastconn
    option httpchk
    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host %[srv_name]
    http-check expect status 200
backend {open}
    balance leastconn
"""


@dataclass(frozen=True)
class Handled:
    """One request as the balancer's log has it; ``target`` is an address, or <NOSRV>."""

    id: str
    target: str
    status: int
    ended: str


@dataclass(frozen=True)
class Balancer:
    """A running one.

    Attributes:
        folder: of its files.
        port: on 127.0.0.1.
        shortened: by what its times are divided.
    """

    folder: Path
    port: int
    shortened: float = SHORTENED

    @property
    def certificate(self) -> Path:
        """What a client trusts."""
        return self.folder / "listener.crt"

    def register(self, address: str, port: int = 443) -> None:
        """Begin to probe a target; it gets requests when it is healthy."""
        if address not in self.states():
            where = f"{address}:{port} ssl verify none"
            probe = (
                f"check check-ssl inter {_milliseconds(PROBE_INTERVAL / self.shortened)} "
                f"rise {HEALTHY} fall {UNHEALTHY}"
            )
            self._order(f"add server {TARGETS}/{address} {where} {probe}")
            self._order(f"add server {OPEN}/{address} {where}")
            self._order(f"enable health {TARGETS}/{address}")
        # HAProxy takes a server that leaves maintenance for healthy: it leaves it to drain first.
        for change in ("state drain", "health down", "state ready"):
            self._order(f"set server {TARGETS}/{address} {change}")
        self._order(f"set server {OPEN}/{address} state ready")

    def healthy(self, address: str) -> bool:
        return self.states()[address].startswith("UP")

    def states(self) -> dict[str, str]:
        """Address -> UP, DOWN, DRAIN, MAINT and their like."""
        return {row["svname"]: row["status"] for row in self._rows(TARGETS)}

    def deregister(self, address: str) -> bool:
        """Drain a target and forget it; whether it has finished all that it had."""
        for backend in (TARGETS, OPEN):
            self._order(f"set server {backend}/{address} state drain")
        deadline = time.monotonic() + DEREGISTRATION_DELAY / self.shortened
        while (busy := self._busy(address)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for backend in (TARGETS, OPEN):
            self._order(f"set server {backend}/{address} state maint")
        return not busy

    def log(self) -> dict[str, Handled]:
        """Every request so far that carried an id, by that."""
        lines = (self.folder / "log").read_text().splitlines()
        found = (Handled(**json.loads(line)) for line in lines if line.startswith('{"id"'))
        return {handled.id: handled for handled in found}

    def _busy(self, address: str) -> bool:
        rows = (row for backend in (TARGETS, OPEN) for row in self._rows(backend))
        return any(int(row["scur"]) for row in rows if row["svname"] == address)

    def _rows(self, backend: str) -> list[dict[str, str]]:
        rows = csv.DictReader(self._ask("show stat").removeprefix("# ").splitlines())
        return [
            row
            for row in rows
            if row["pxname"] == backend and row["svname"] not in {"FRONTEND", "BACKEND"}
        ]

    def _order(self, command: str) -> None:
        said = self._ask(command).strip()
        if said and "registered" not in said:
            raise ApplianceError(f"HAProxy refuses {command!r}: {said}")

    def _ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.folder / "admin.sock"))
            connection.sendall(command.encode() + b"\n")
            with connection.makefile() as answer:
                return answer.read()


@contextmanager
def balancer(folder: Path, name: str, shortened: float = SHORTENED) -> Iterator[Balancer]:
    """One that serves ``name`` on a free port while the body runs.

    Args:
        folder: for its files.
        name: of the fleet.
        shortened: by what its times are divided.

    Raises:
        ApplianceError: HAProxy is not there, or does not start; the message has what it says.
    """
    host.install(PROGRAM)
    _certify(folder, name)
    with socket.create_server(("127.0.0.1", 0)) as listener, (folder / "log").open("wb") as log:
        (folder / "haproxy.cfg").write_text(_configuration(folder, listener.fileno(), shortened))
        path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
        process = subprocess.Popen(
            ["haproxy", "-db", "-f", folder / "haproxy.cfg"],
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": path},
        )
        try:
            made = Balancer(folder, listener.getsockname()[1], shortened)
            _wait((folder / "admin.sock").exists, process, folder / "log")
            yield made
        finally:
            process.kill()
            process.wait()


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _configuration(folder: Path, listener: int, shortened: float) -> str:
    return _CONFIGURATION.format(
        folder=folder,
        listener=listener,
        targets=TARGETS,
        open=OPEN,
        connect=_milliseconds(CONNECTION_TIMEOUT),
        idle=_milliseconds(IDLE_TIMEOUT / shortened),
        probe=_milliseconds(PROBE_TIMEOUT),
    )


def _certify(folder: Path, name: str) -> None:
    key = tls.new_key()
    certificate = tls.self_signed(key, [name], dt.datetime.now(dt.UTC))
    (folder / "listener.crt").write_bytes(certificate)
    (folder / "listener.pem").write_bytes(certificate + key)


def _wait(true: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while not true():
        if process.poll() is not None or time.monotonic() > deadline:
            raise ApplianceError("HAProxy did not start.", log.read_text())
        time.sleep(0.05)
