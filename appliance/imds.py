"""The instance metadata service, version 2 only: a session token first, then values.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from appliance.errors import ApplianceError

DEFAULT_URL = "http://169.254.169.254"
TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - a header's name
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN_TTL = 300  # seconds; one boot's questions are asked within the deadline below
DEADLINE = 20.0  # seconds for all requests of one client together, retries included
ATTEMPT_TIMEOUT = 2.0  # seconds for one request
FIRST_PAUSE = 0.1  # seconds; doubles with each retry
LONGEST_PAUSE = 2.0
LARGEST_ANSWER = 64 * 1024  # bytes; user data may be 16 KiB, values are far shorter


class MetadataError(ApplianceError):
    """The service gave no usable answer within the deadline."""


@dataclass
class Imds:
    """A client of one boot: it shares one token and one deadline among its requests."""

    url: str = DEFAULT_URL
    deadline: float = DEADLINE
    _token: str = field(default="", repr=False)
    _until: float = field(default=0.0, repr=False)

    def get(self, path: str) -> str | None:
        """Read one value.

        Args:
            path: below the version, such as ``meta-data/instance-id``.

        Returns:
            The value without surrounding white space; None when there is none (404).

        Raises:
            MetadataError: no answer, a refusal, or an answer that is no text, within the
                deadline of this client.
        """
        self._until = self._until or time.monotonic() + self.deadline
        pause = FIRST_PAUSE
        while True:
            try:
                return self._ask_with_token(path)
            except (OSError, http.client.HTTPException, _RetryableError) as error:
                left = self._until - time.monotonic()
                if left <= pause:
                    raise MetadataError(
                        f"The instance metadata service at {self.url} gave no usable answer "
                        f"within {self.deadline:g} s ({_reason(error)}).",
                        "Check that the instance's metadata options enable the HTTP endpoint.",
                    ) from error
                # Jitter: instances that boot together do not retry together.
                time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - no secret
                pause = min(2 * pause, LONGEST_PAUSE)

    def _ask_with_token(self, path: str) -> str | None:
        if not self._token:
            status, body = self._ask("PUT", "/latest/api/token", {TTL_HEADER: str(TOKEN_TTL)})
            if status == http.client.FORBIDDEN:
                raise MetadataError(
                    "The instance metadata service is switched off for this instance (403).",
                    "Enable its HTTP endpoint: aws ec2 modify-instance-metadata-options "
                    "--http-endpoint enabled.",
                )
            if status != http.client.OK:
                raise _RetryableError(f"status {status} to the token request")
            token = _text(body)
            if not token or len(token) > 1024 or any(character.isspace() for character in token):  # noqa: PLR2004
                raise _RetryableError("garbage instead of a token")
            self._token = token
        status, body = self._ask("GET", f"/latest/{path}", {TOKEN_HEADER: self._token})
        if status == http.client.NOT_FOUND:
            return None
        if status == http.client.UNAUTHORIZED:
            self._token = ""  # expired, or the service was restarted: ask for another
        if status != http.client.OK:
            raise _RetryableError(f"status {status} for {path}")
        return _text(body).strip()

    def _ask(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """One request on a connection of its own."""
        address = urlsplit(self.url)
        give_up = min(self._until, time.monotonic() + ATTEMPT_TIMEOUT)
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=_left(give_up)
        )
        connection.connect()
        with _cut_off(connection, give_up):
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            body = response.read(LARGEST_ANSWER + 1)
        if len(body) > LARGEST_ANSWER:
            raise _RetryableError("an answer that does not end")
        if response.length:
            raise _RetryableError("an answer that is cut short")
        return response.status, body


@contextmanager
def _cut_off(connection: http.client.HTTPConnection, give_up: float) -> Iterator[None]:
    """End the connection at that time: a socket's own timeout begins anew with each byte.

    Raises:
        TimeoutError: the time was up; what came until then is not to be used.
    """
    connected, up = connection.sock, threading.Event()

    def cut() -> None:
        up.set()
        with suppress(OSError):  # the other end was faster
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(_left(give_up), cut)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        connection.close()
        if up.is_set():
            raise TimeoutError("timed out")


def _left(until: float) -> float:
    """Seconds; never so few that an answer at hand would be missed."""
    return max(0.05, until - time.monotonic())


class _RetryableError(Exception):
    """An answer that a later attempt may better."""


def _text(body: bytes) -> str:
    try:
        return body.decode("ascii")
    except UnicodeDecodeError:
        raise _RetryableError("an answer that is no text") from None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
