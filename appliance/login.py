"""The login of a browser: a password in nginx's file, or nobody's at all."""

from __future__ import annotations

from appliance import derived, identity
from appliance.activate import NewFile
from appliance.apply import apply
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.identity import USERNAME, Identity
from appliance.paths import Paths
from appliance.settings import Settings

SHORTEST = 12  # characters: nginx slows guessing down to 100 attempts a second, not more
DISABLED = "# The login is off. `infinity-set-password --enable` makes a new one.\n"


def disabled(paths: Paths) -> bool:
    """Whether the operator has switched the login off, for this instance and its copies."""
    return paths.login_off.exists()


def check(password: str) -> None:
    """Refuse what nginx cannot check or what can be guessed.

    Raises:
        ApplianceError: says which.
    """
    if len(password) < SHORTEST:
        raise ApplianceError(
            f"A password has at least {SHORTEST} characters.",
            "`infinity-set-password --generate` makes one of 32.",
        )
    if not identity.usable(password):
        raise ApplianceError(
            f"A password has at most {identity.LONGEST_PASSWORD} bytes and no control characters.",
            "That is as much as bcrypt reads.",
        )


def change(password: str, known: Settings, gate: Gate) -> None:
    """The password of the login from now on, also where it was off; other users' lines stay.

    Raises:
        ApplianceError: as ``apply``.
    """
    paths = gate.paths
    mine = identity.htpasswd_line(Identity(api_key="", password=password))
    files = [
        NewFile(paths.htpasswd, _others(paths) + mine.encode(), 0o640, gate.login_owner),
        NewFile(paths.login_off, None, 0, gate.secret_owner),
        *_told(password, gate),
    ]
    apply(files, known, gate)


def disable(known: Settings, gate: Gate) -> int:
    """Refuse every login; keys go on working.

    Returns:
        How many users beside ours had one.

    Raises:
        ApplianceError: as ``apply``.
    """
    paths = gate.paths
    others = _others(paths).count(b"\n")
    files = [
        NewFile(paths.login_off, "", 0o644, gate.secret_owner),
        NewFile(paths.htpasswd, DISABLED, 0o640, gate.login_owner),
        *_told("", gate),
    ]
    apply(files, known, gate)
    return others


def _others(paths: Paths) -> bytes:
    """The lines of users that an operator has added by hand."""
    try:
        lines = paths.htpasswd.read_bytes().splitlines()
    except FileNotFoundError:
        return b""
    ours = USERNAME.encode() + b":"
    kept = [line for line in lines if line.strip() and not line.startswith((ours, b"#"))]
    return b"".join(line + b"\n" for line in kept)


def _told(password: str, gate: Gate) -> list[NewFile]:
    """The credentials file as it is true then."""
    values = {"INFINITY_USERNAME": USERNAME, "INFINITY_PASSWORD": password}
    return derived.credentials(values, gate, add=bool(password))
