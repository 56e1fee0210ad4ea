"""A stand-in for the model server: real HTTP on loopback, and a record of all it was sent."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass(frozen=True)
class Seen:
    """One request as it arrived behind nginx."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass(frozen=True)
class Reply:
    """What the stub answers on a path."""

    status: int = 200
    body: bytes = b'{"ok":true}'
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)


REPLIES = {
    "/health": Reply(body=b'{"unix":1.0}'),
    "/readyz": Reply(body=b'{"status":"ready"}'),
    "/docs": Reply(body=b"<html></html>", headers=(("Content-Type", "text/html"),)),
    "/overloaded": Reply(429, b'{"error":{"code":"mine"}}', (("Retry-After", "7"),)),
    "/failing": Reply(500, b'{"error":{"code":"mine"}}'),
    "/steering": Reply(
        headers=(
            ("Content-Type", "application/json"),
            ("X-Accel-Redirect", "/health"),
            ("X-Accel-Limit-Rate", "1"),
            ("Server", "me"),
        )
    ),
    "/cors": Reply(
        headers=(
            ("Access-Control-Allow-Origin", "*"),
            ("Access-Control-Allow-Credentials", "true"),
            ("Access-Control-Allow-Headers", "*"),
            ("Access-Control-Allow-Methods", "*"),
            ("Access-Control-Allow-Private-Network", "true"),
            ("Access-Control-Expose-Headers", "*"),
            ("Access-Control-Max-Age", "9"),
        )
    ),
    "/own-policy": Reply(
        headers=(("Content-Security-Policy", "default-src 'self'"), ("Cache-Control", "max-age=9"))
    ),
    "/large": Reply(body=bytes(32 << 20)),
    "/moved": Reply(307, b"", (("Location", "http://localhost:1/elsewhere?a=b"),)),
}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """nginx may close on us at any time; anything else is worth a traceback."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@dataclass
class Stub:
    """The server; a context manager. ``seen`` grows by one for each request."""

    port: int = 0
    seen: list[Seen] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = Server(("127.0.0.1", self.port), _handler(self.seen))
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(seen: list[Seen]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            seen.append(Seen(self.command, self.path, tuple(self.headers.items()), body))
            if self.path == "/hangup":
                self.close_connection = True
                return
            if self.path == "/garbage":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nno header at all\r\n\r\n")
                self.close_connection = True
                return
            if self.path == "/slow":
                time.sleep(2)
            reply = REPLIES.get(self.path, Reply(body=json.dumps({"path": self.path}).encode()))
            self.send_response_only(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_OPTIONS = do_PUT = do_DELETE = _answer  # noqa: N815 - the base class looks for these names

        def log_message(self, *_: object) -> None:
            """Quiet: the record is ``seen``."""

    return Handler
