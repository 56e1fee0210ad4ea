"""Live probes of the gate: the one definition of "it refuses strangers and lets us in"."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from appliance.asker import CLOSED, PENDING, Asker, wait_until_listening
from appliance.errors import ApplianceError
from appliance.identity import USERNAME
from appliance.paths import Paths
from appliance.settings import Settings

REFUSALS = frozenset({401, 429})  # 429: an attacker is being slowed down, and is refused too
STOPPED = (
    "nginx stays stopped rather than open; undo the last change below /etc/nginx, "
    "then run `systemctl restart nginx`."
)


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


def require(target: Target, hint: str = STOPPED) -> None:
    """Try everything; raise when one thing is not as it must be.

    Args:
        target: what to probe.
        hint: what has become of nginx then.

    Raises:
        ApplianceError: names every check that failed.
    """
    failed = [check for check in probe(target) if not check.passed]
    if failed:
        told = "; ".join(f"{check.name}: {check.said}" for check in failed)
        raise ApplianceError(f"The check of the credential gate failed ({told}).", hint)


def probe(target: Target) -> list[Check]:
    """Every check, in the order a reader of the user guide's step 4 expects."""
    wait_until_listening(target.settings.ports.https)
    ask = Asker(target.settings, target.paths)
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


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def basic(password: str) -> dict[str, str]:
    pair = base64.b64encode(f"{USERNAME}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def cross_origin(key: str) -> dict[str, str]:
    return {**bearer(key), "Origin": "https://unknown.invalid"}


def flipped(key: str) -> str:
    """The key with the case of its last letter flipped; with one more where it has no letter."""
    letters = [index for index, character in enumerate(key) if character.isalpha()]
    if not letters:  # written by hand
        return key + "A"
    return key[: letters[-1]] + key[letters[-1]].swapcase() + key[letters[-1] + 1 :]


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
