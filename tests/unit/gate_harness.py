"""The gate as an ordinary process: real nginx and our configuration, below a folder."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import http.client
import io
import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import bcrypt
import pytest

from appliance import render, tls
from appliance.gate import Gate as Nginx
from appliance.paths import Paths
from appliance.settings import Ports, Settings
from firstboot.__main__ import has_ipv6
from machine import unpacked

REPO = Path(__file__).resolve().parents[2]
HOST = "localhost"
ALIAS = "alias.localhost"
KEY = "inf-" + "0a1b2c3d" * 6
NAMED_KEY = "inf-" + "5e6f7a8b" * 6
KEY_OFF = "inf-" + "9c0d1e2f" * 6
USER = "admin"
PASSWORD = "Correct9Horse2Battery7Staple"

Headers = Sequence[tuple[str, str]]


def bearer(key: str = KEY) -> tuple[str, str]:
    return ("Authorization", f"Bearer {key}")


def basic(user: str = USER, password: str = PASSWORD) -> tuple[str, str]:
    return ("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


@dataclass(frozen=True)
class Answer:
    """One response. ``headers`` may hold a name more than once."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str:
        found = self.values(name)
        assert len(found) == 1, f"{name} is there {len(found)} times"
        return found[0]

    def json(self) -> dict[str, Any]:
        assert self.header("Content-Type") == "application/json"
        return cast("dict[str, Any]", json.loads(self.body))


@dataclass(frozen=True)
class Gate:
    """A running nginx below ``root``, and ways to attack it."""

    root: Path
    https_port: int
    http_port: int
    process: subprocess.Popen[str]

    @property
    def etc(self) -> Path:
        return self.root / "etc/nginx"

    @property
    def certificate(self) -> Path:
        return self.root / "etc/ssl/infinity/infinity.crt"

    def connect(
        self,
        *,
        tls: bool = True,
        sni: str | None = HOST,
        address: str = "127.0.0.1",
        source: str = "",
        protocol: str = "http/1.1",
    ) -> socket.socket:
        """``source`` is the address to call from; ``protocol`` is what ALPN asks for."""
        port = self.https_port if tls else self.http_port
        plain = socket.create_connection((address, port), 20, (source, 0) if source else None)
        if not tls:
            return plain
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.check_hostname = sni is not None
        context.set_alpn_protocols([protocol])
        return context.wrap_socket(plain, server_hostname=sni)

    def raw(self, request: bytes, *, tls: bool = True, sni: str | None = HOST) -> bytes:
        """Everything that comes back until the connection is closed."""
        with self.connect(tls=tls, sni=sni) as connection:
            return exchange(connection, request)

    def ask(
        self,
        method: str,
        target: str,
        *headers: tuple[str, str],
        body: bytes = b"",
        host: str | None = None,
        version: str = "1.1",
        tls: bool = True,
        sni: str | None = HOST,
        address: str = "127.0.0.1",
    ) -> Answer | None:
        """One request, written as given; None when the connection was closed unanswered."""
        shown_host = f"{HOST}:{self.https_port}" if host is None else host
        lines = [f"{method} {target} HTTP/{version}"]
        lines += [f"Host: {shown_host}"] if shown_host else []
        lines += [f"{name}: {value}" for name, value in headers]
        lines += [f"Content-Length: {len(body)}"] if body else []
        head = "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")
        with self.connect(tls=tls, sni=sni, address=address) as connection:
            raw = exchange(connection, head + body)
        return parse(raw, method) if raw else None

    def get(self, target: str, *headers: tuple[str, str], method: str = "GET") -> Answer:
        """One ordinary request that must be answered."""
        answer = self.ask(method, target, *headers)
        assert answer is not None, f"{target[:80]} was closed unanswered"
        return answer

    def post(self, target: str, *headers: tuple[str, str], body: bytes = b"{}") -> Answer:
        answer = self.ask("POST", target, *headers, body=body)
        assert answer is not None, f"{target[:80]} was closed unanswered"
        return answer

    def reload(self) -> None:
        """Return when nobody is answered by the files of before any more."""
        Nginx(Paths(self.root), nginx_program()).reload()

    def log_line(self, request_id: str) -> dict[str, Any]:
        """The access log's line for one request; it is written just after the answer."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for line in (self.root / "var/log/nginx/access.log").read_text("ascii").splitlines():
                entry = cast("dict[str, Any]", json.loads(line))
                if entry["request_id"] == request_id:
                    return entry
            time.sleep(0.02)
        pytest.fail(f"no line for {request_id} in the access log")


def exchange(connection: socket.socket, request: bytes) -> bytes:
    received = b""
    try:
        connection.sendall(request)
        while chunk := connection.recv(65536):
            received += chunk
    except (ConnectionError, ssl.SSLEOFError):
        pass  # closed in the middle of our request: what came before counts
    return received


def parse(raw: bytes, method: str = "GET") -> Answer:
    class Given:
        """What http.client wants of a socket."""

        def makefile(self, *_: object) -> io.BytesIO:
            return io.BytesIO(raw)

    response = http.client.HTTPResponse(cast("socket.socket", Given()), method=method)
    response.begin()
    return Answer(response.status, tuple(response.getheaders()), response.read())


def nginx_program() -> str:
    """NGINX_PROGRAM, else this computer's, else one unpacked from the distribution's package."""
    return os.environ.get("NGINX_PROGRAM") or str(unpacked.find("nginx", "nginx"))


def nginx_command(root: Path, *options: str) -> list[str]:
    return [*Nginx(Paths(root), nginx_program()).command(), *options]


def lay_out(root: Path, *, https_port: int, http_port: int, upstream_port: int) -> None:
    """All that nginx reads and writes, below ``root``: what an instance has after first boot."""
    for folder in ("run", "var/log/nginx", "var/lib/nginx", "etc/ssl/infinity"):
        (root / folder).mkdir(parents=True)
    etc = root / "etc/nginx"
    shutil.copytree(REPO / "nginx", etc)
    write_certificate(root / "etc/ssl/infinity")
    settings = Settings(
        hostname=HOST,
        model="owner/name",
        followed=False,
        aliases=(ALIAS,),
        ports=Ports(https_port, http_port, upstream_port),
        ipv6=has_ipv6(),
    )
    (etc / "infinity-site.conf").write_text(render.site(settings, REPO / "templates"))
    (etc / "infinity-apikey.map").write_text(
        f'"Bearer {KEY}" 1;\n"Bearer {NAMED_KEY}" Search-Team;\n"Bearer {KEY_OFF}" 0;\n'
    )
    write_login(etc, USER, PASSWORD)


def write_certificate(folder: Path) -> None:
    key = tls.new_key()
    made = tls.self_signed(key, [HOST, ALIAS], dt.datetime.now(dt.UTC))
    (folder / "infinity.key").write_bytes(key)
    (folder / "infinity.crt").write_bytes(made)


def write_login(etc: Path, user: str, password: str, cost: int = 5) -> None:
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()
    (etc / ".infinity.htpasswd").write_text(f"{user}:{hashed}\n")


def free_ports(count: int) -> list[int]:
    """Ports that no connection on its way out is given either: below Linux's range for those."""
    held: list[socket.socket] = []
    for port in random.sample(range(20000, 32000), 1000):
        if len(held) < count:
            with contextlib.suppress(OSError):
                held.append(socket.create_server(("", port)))
    ports = [int(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    return ports


@contextmanager
def running_gate(
    root: Path, upstream_port: int, edits: Mapping[str, tuple[str, str]] | None = None
) -> Iterator[Gate]:
    """Start nginx, wait until it serves, and stop it in the end.

    Args:
        root: an empty folder.
        upstream_port: where the server is, or is not.
        edits: per file below etc/nginx, a text and what replaces it.
    """
    https_port, http_port = free_ports(2)
    lay_out(root, https_port=https_port, http_port=http_port, upstream_port=upstream_port)
    for name, (old, new) in (edits or {}).items():
        file = root / "etc/nginx" / name
        assert old in file.read_text(), f"{name} no longer says {old}"
        file.write_text(file.read_text().replace(old, new))
    with subprocess.Popen(nginx_command(root), stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until_serving(process, http_port)
            yield Gate(root, https_port, http_port, process)
        finally:
            process.terminate()


def wait_until_serving(process: subprocess.Popen[str], port: int) -> None:
    """Until a worker closes a connection: nginx listens before it has any, or a pid file."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            assert process.stderr is not None
            pytest.fail(f"nginx did not start: {process.stderr.read()}")
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                exchange(connection, b"GET / HTTP/1.0\r\n\r\n")
        except OSError:
            time.sleep(0.02)
        else:
            return
    pytest.fail("nginx does not serve")
