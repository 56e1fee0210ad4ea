"""A stand-in for AWS's instance metadata service, version 2 only; it is not AWS's service.

It speaks the protocol that clients meet on EC2: a session token by PUT with a lifetime of
1 to 21,600 s (400 without or beyond), 401 without a valid token, listings, 404 for what is
absent, 403 for a token request that came through a proxy (X-Forwarded-For), 405 for other
methods. AWS also limits the hops of its answers to 1, or 2 for an image registered with
ImdsSupport v2.0; here the machine is one hop away, so the limit never shows.

The file is read again for every request, so an edit shows at once. Its reserved key
``fault`` makes the service fail on purpose:

    unauthorized  every request is 401, token requests too
    error         every request is 500
    garbage       every request is 200 with bytes that are no text
    hang          requests are read and never answered
    absent        connections are closed unanswered
    slow          every answer takes 1.5 s

Run as ``python3 -m machine.imds --file FILE [--defaults FILE] [--listen ADDRESS] [--port N]``;
prints ``listening ADDRESS:PORT`` once it accepts requests.
Protocol: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-service.html
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from machine import metadata

TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path
TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - a header's name
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
MAX_TTL = 21600
SLOW_SECONDS = 1.5
GARBAGE = bytes(range(128, 256))


class Emulator(ThreadingHTTPServer):
    """One instance's metadata, served from a JSON file."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], file: Path, defaults: Path | None = None) -> None:
        super().__init__(address, Handler)
        self.file = file
        self.defaults = defaults
        self.tokens: dict[str, float] = {}

    def document(self) -> Mapping[str, object]:
        """The metadata at this moment: the file's keys over the defaults.

        Raises:
            ValueError: a file is not a JSON object.
            OSError: a file cannot be read.
        """
        merged: dict[str, object] = {}
        for path in filter(None, (self.defaults, self.file)):
            loaded = json.loads(path.read_text())
            if not isinstance(loaded, dict):
                raise ValueError(f"{path} is not a JSON object")  # noqa: TRY004 - one type for both
            merged |= loaded
        return merged

    def new_token(self, ttl: int) -> str:
        now = time.monotonic()
        self.tokens = {token: end for token, end in self.tokens.items() if end > now}
        token = secrets.token_urlsafe(42)
        self.tokens[token] = now + ttl
        return token

    def seconds_left(self, token: str) -> int | None:
        """The rest of a token's life; None when it is unknown or over."""
        left = self.tokens.get(token, 0.0) - time.monotonic()
        return int(left) if left > 0 else None


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Emulator
    protocol_version = "HTTP/1.1"
    server_version = "EC2ws"
    sys_version = ""

    def do_PUT(self) -> None:
        document = self._begin()
        if document is None:
            return
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        ttl = self.headers.get(TTL_HEADER, "")
        if self.path != TOKEN_PATH:
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED)
        elif "X-Forwarded-For" in self.headers:
            self._answer(HTTPStatus.FORBIDDEN)
        elif not (ttl.isascii() and ttl.isdigit() and 1 <= int(ttl) <= MAX_TTL):
            self._answer(HTTPStatus.BAD_REQUEST)
        else:
            token = self.server.new_token(int(ttl))
            self._answer(HTTPStatus.OK, token, {TTL_HEADER: ttl})

    def do_GET(self) -> None:
        document = self._begin()
        if document is None:
            return
        left = self.server.seconds_left(self.headers.get(TOKEN_HEADER, ""))
        if left is None:
            self._answer(HTTPStatus.UNAUTHORIZED)
            return
        body = metadata.lookup(document, self.path.partition("?")[0])
        if body is None:
            self._answer(HTTPStatus.NOT_FOUND)
        else:
            self._answer(HTTPStatus.OK, body, {TTL_HEADER: str(left)})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED)

    def do_DELETE(self) -> None:
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED)

    def _begin(self) -> Mapping[str, object] | None:
        """Read the file and act out its fault; None when the request is dealt with."""
        try:
            document = self.server.document()
        except (OSError, ValueError) as error:
            self.log_error("metadata file: %s", error)
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR)
            return None
        fault = document.get("fault")
        if fault == "slow":
            time.sleep(SLOW_SECONDS)
        elif fault == "unauthorized":
            self._answer(HTTPStatus.UNAUTHORIZED)
        elif fault == "garbage":
            self._answer(HTTPStatus.OK, GARBAGE)
        elif fault in {"hang", "absent"}:
            self.close_connection = True
            if fault == "hang":
                self.rfile.read()  # until the client gives up
        elif fault is not None:  # "error", and a misspelt fault must not pass as none
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR)
        return document if fault in {None, "slow"} else None

    def _answer(
        self, status: HTTPStatus, body: str | bytes = "", headers: Mapping[str, str] | None = None
    ) -> None:
        raw = body.encode() if isinstance(body, str) else body
        if status >= HTTPStatus.BAD_REQUEST:
            raw = f"{status.value} - {status.phrase}\n".encode()
            self.close_connection = True  # its body, if any, was not read
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(raw)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)


def main() -> None:
    parser = argparse.ArgumentParser(prog="machine.imds")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--defaults", type=Path)
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=80)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Emulator((options.listen, options.port), options.file, options.defaults) as emulator:
        print(f"listening {options.listen}:{emulator.server_port}", flush=True)
        emulator.serve_forever()


if __name__ == "__main__":
    main()
