"""The secrets that make this instance itself: an API key and a login."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from appliance.errors import ApplianceError
from appliance.paths import Paths

USERNAME = "admin"
KEY_PREFIX = "inf-"
KEY_BYTES = 24  # 192 bits, written as 48 hex digits in lower case
PASSWORD_BYTES = 24  # 192 bits
_KEY = re.compile(r"inf-[0-9a-f]{48}")
_PASSWORD = re.compile(r"[A-Za-z0-9_-]{32,}")

# A bcrypt check stops an nginx worker for its whole length: 2 ms at cost 5, 95 ms at cost 10.
# A higher cost protects passwords that can be guessed; 192 random bits cannot, at any cost.
BCRYPT_COST = 5


@dataclass(frozen=True)
class Identity:
    """The secrets in plain text; never shown by accident, never compared by eye."""

    api_key: str = field(repr=False)
    password: str = field(repr=False)
    username: str = USERNAME


def create() -> Identity:
    """New secrets from the system's random source."""
    return Identity(
        api_key=KEY_PREFIX + secrets.token_hex(KEY_BYTES),
        password=secrets.token_urlsafe(PASSWORD_BYTES),
    )


def load(paths: Paths) -> Identity | None:
    """The secrets in the credentials file; None when it is not there or not whole."""
    values = read_credentials(paths)
    key, password = values.get("INFINITY_API_KEY", ""), values.get("INFINITY_PASSWORD", "")
    if _KEY.fullmatch(key) and _PASSWORD.fullmatch(password):
        return Identity(api_key=key, password=password)
    return None


def read_credentials(paths: Paths) -> dict[str, str]:
    """The credentials file as it stands; empty when the operator has deleted it."""
    try:
        lines = paths.credentials.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ApplianceError(
            f"{paths.credentials} cannot be read.", "Only root may read it: use sudo."
        ) from error
    return dict(line.split("=", 1) for line in lines if "=" in line)


def htpasswd_line(identity: Identity) -> str:
    """The login as nginx checks it: the name and a bcrypt hash."""
    import bcrypt  # noqa: PLC0415 - a boot with nothing to do does not pay for it

    hashed = bcrypt.hashpw(identity.password.encode(), bcrypt.gensalt(BCRYPT_COST))
    return f"{identity.username}:{hashed.decode()}\n"
