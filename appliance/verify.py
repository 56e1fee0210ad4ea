"""Live probes of the gate: the one definition of "it refuses strangers and lets us in"."""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.errors import ApplianceError
from appliance.identity import USERNAME
from appliance.names import as_address
from appliance.paths import Paths
from appliance.settings import Settings

LOOPBACK = "127.0.0.1"
PATIENCE = 5.0  # seconds until nginx's workers must accept
ANSWER_TIMEOUT = 3.0  # seconds; a refusal comes at once
CLOSED = 0  # the status of a connection that was closed unanswered
PENDING = -1  # let through: the model has not answered yet
REFUSALS = frozenset({401, 429})  # 429: an attacker is being slowed down, and is refused too
_MAP_LINE = re.compile(r'^\s*"Bearer (?P<key>[^"\s]+)"\s+(?P<value>[^;\s]+)\s*;')


@dataclass(frozen=True)
class Target:
    """What to probe, and the credentials that must be accepted (None: not known)."""

    settings: Settings
    paths: Paths
    api_key: str | None = field(repr=False)
    password: str | None = field(repr=False)


@dataclass(frozen=True)
class Check:
    """One thing that was tried. ``said`` is what came back, for a person."""

    name: str
    passed: bool
    said: str


def require(target: Target) -> None:
    """Try everything; raise when one thing is not as it must be.

    Raises:
        ApplianceError: names every check that failed.
    """
    failed = [check for check in probe(target) if not check.passed]
    if failed:
        told = "; ".join(f"{check.name}: {check.said}" for check in failed)
        raise ApplianceError(
            f"The check of the credential gate failed ({told}).",
            "nginx stays stopped rather than open; undo the last change below /etc/nginx, "
            "then run `systemctl restart nginx`.",
        )


def probe(target: Target) -> list[Check]:
    """Every check, in the order a reader of the user guide's step 4 expects."""
    wait_until_listening(target.settings.ports.https)
    ask = _Asker(target)
    key = target.api_key or "inf-" + "0" * 48
    password = target.password or "x" * 32
    here = f"{target.settings.url.rstrip('/')}/models"
    checks = [
        _refused("no credential", ask.tls("GET")),
        _refused("a wrong API key", ask.tls("GET", bearer(key + "x"))),
        _refused("an API key with a letter's case flipped", ask.tls("GET", bearer(flipped(key)))),
        _refused("a wrong password", ask.tls("GET", basic(password + "x"))),
        _exactly("a cross-origin POST", 403, ask.tls("POST", cross_origin(key))),
        _exactly("an unknown Host", CLOSED, ask.tls("GET", {"Host": "unknown.invalid"})),
        _exactly("/healthz", 200, ask.tls("GET", path="/healthz")),
        _redirects(here, *ask.plain()),
    ]
    if target.api_key:
        checks.append(_accepted("the API key", ask.tls("GET", bearer(key))))
    if target.password:
        checks.append(_accepted("the password", ask.tls("GET", basic(password))))
    return checks


def first_key(paths: Paths) -> str | None:
    """A key that the map lets in, or None. The map is the truth, also when written by hand."""
    for line in paths.api_key_map.read_text("utf-8").splitlines():
        found = _MAP_LINE.match(line)
        if found and found["value"] != "0" and found["key"] == found["key"].lower():
            return found["key"]
    return None


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def basic(password: str) -> dict[str, str]:
    pair = base64.b64encode(f"{USERNAME}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def cross_origin(key: str) -> dict[str, str]:
    return {**bearer(key), "Origin": "https://unknown.invalid"}


def flipped(key: str) -> str:
    """The key with the case of its last letter flipped (each key has the prefix's letters)."""
    position = max(index for index, character in enumerate(key) if character.isalpha())
    return key[:position] + key[position].swapcase() + key[position + 1 :]


def wait_until_listening(port: int) -> None:
    """Return when nginx accepts connections."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise ApplianceError(
                    f"Nothing accepts connections on port {port}.", "See `journalctl -u nginx`."
                ) from error
            time.sleep(0.02)
        else:
            return


class _Asker:
    """Requests to the gate on loopback, with the certificate checked against our file."""

    def __init__(self, target: Target) -> None:
        self._target = target
        host = target.settings.hostname
        self._context = ssl.create_default_context(cafile=str(target.paths.certificate))
        # A certificate of the operator's CA does not verify against itself alone.
        self._context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self._name = host.strip("[]") if as_address(host) else host

    def tls(
        self, method: str, headers: Mapping[str, str] | None = None, path: str = "/models"
    ) -> int:
        """The status of one request by our name (or by a Host header among ``headers``)."""
        ports = self._target.settings.ports
        raw = socket.create_connection((LOOPBACK, ports.https), timeout=ANSWER_TIMEOUT)
        try:
            secured = self._context.wrap_socket(raw, server_hostname=self._name)
        except ssl.SSLError as error:
            raw.close()
            raise ApplianceError(
                f"The TLS handshake as {self._name} failed: {error.reason}.",
                "Check that /etc/ssl/infinity/infinity.crt covers the host name and is in date.",
            ) from error
        return _status(secured, method, path, {**self._host(), **(headers or {})})

    def plain(self) -> tuple[int, str]:
        """Status and Location of a request without TLS."""
        ports = self._target.settings.ports
        connection = http.client.HTTPConnection(LOOPBACK, ports.http, timeout=ANSWER_TIMEOUT)
        try:
            connection.request("GET", "/models", headers=self._host())
            response = connection.getresponse()
            return response.status, response.getheader("Location") or ""
        except (OSError, http.client.HTTPException):
            return CLOSED, ""
        finally:
            connection.close()

    def _host(self) -> dict[str, str]:
        return {"Host": self._target.settings.hostname}


def _status(secured: ssl.SSLSocket, method: str, path: str, headers: Mapping[str, str]) -> int:
    connection = http.client.HTTPConnection(LOOPBACK)
    connection.sock = secured
    try:
        connection.request(method, path, headers=dict(headers))
        return connection.getresponse().status
    except TimeoutError:
        return PENDING
    except (OSError, http.client.HTTPException):
        return CLOSED
    finally:
        connection.close()


def _refused(name: str, status: int) -> Check:
    return Check(name, status in REFUSALS, f"{_told(status)} instead of 401")


def _exactly(name: str, wanted: int, status: int) -> Check:
    return Check(name, status == wanted, f"{_told(status)} instead of {_told(wanted)}")


def _accepted(name: str, status: int) -> Check:
    refused = status in REFUSALS or status in {CLOSED, 400, 403}
    return Check(name, not refused, f"{_told(status)} instead of an answer")


def _redirects(wanted: str, status: int, location: str) -> Check:
    passed = (status, location) == (301, wanted)
    return Check("plain HTTP", passed, f"{_told(status)} to {location!r} instead of {wanted!r}")


def _told(status: int) -> str:
    return {CLOSED: "a closed connection", PENDING: "no answer yet"}.get(status, str(status))
