"""The secrets that make this instance itself: an API key and a login."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field

from appliance import keys
from appliance.errors import ApplianceError
from appliance.paths import Paths

USERNAME = "admin"
KEY_PREFIX = "inf-"
KEY_BYTES = 24  # 192 bits, written as 48 hex digits in lower case
PASSWORD_BYTES = 24  # 192 bits
# What an operator may have put in a password's place: what bcrypt can hash.
_PASSWORD = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]+")
LONGEST_PASSWORD = 72  # bytes

# A bcrypt check stops an nginx worker for its whole length: 2 ms at cost 5, 95 ms at cost 10.
# A higher cost protects passwords that can be guessed; 192 random bits cannot, at any cost.
BCRYPT_COST = 5


@dataclass(frozen=True)
class Identity:
    """The secrets in plain text; never shown by accident. "" is one that nobody wrote down."""

    api_key: str = field(repr=False)
    password: str = field(repr=False)
    username: str = USERNAME


def new_api_key() -> str:
    return KEY_PREFIX + secrets.token_hex(KEY_BYTES)


def new_password() -> str:
    return secrets.token_urlsafe(PASSWORD_BYTES)


def load(paths: Paths) -> Identity:
    """The secrets in the credentials file, as far as nginx can use them."""
    values = read_credentials(paths)
    key, password = values.get("INFINITY_API_KEY", ""), values.get("INFINITY_PASSWORD", "")
    return Identity(
        api_key=key if keys.TOKEN.fullmatch(key) else "",
        password=password if usable(password) else "",
    )


def usable(password: str) -> bool:
    """Whether it can be typed and hashed."""
    return bool(_PASSWORD.fullmatch(password)) and len(password.encode()) <= LONGEST_PASSWORD


def read_credentials(paths: Paths) -> dict[str, str]:
    """The credentials file as it stands; empty when the operator has deleted it."""
    try:
        lines = paths.credentials.read_text("utf-8").split("\n")  # and at no other sign
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ApplianceError(
            f"{paths.credentials} cannot be read.", "Only root may read it: use sudo."
        ) from error
    except UnicodeDecodeError as error:
        raise ApplianceError(
            f"{paths.credentials} is no text.", "Move it away; nginx keeps what it accepts."
        ) from error
    return dict(line.split("=", 1) for line in lines if "=" in line)


def first_key(paths: Paths) -> str | None:
    """A key that the map lets in for good, or None. The map is the truth, also written by hand."""
    listed = keys.parse(paths.api_key_map.read_text("utf-8", "replace"))
    lasting = (key.token for key in listed if key.until is None)
    return next((token for token in lasting if keys.TOKEN.fullmatch(token)), None)


def htpasswd_line(identity: Identity) -> str:
    """The login as nginx checks it: the name and a bcrypt hash."""
    import bcrypt  # noqa: PLC0415 - a boot with nothing to do does not pay for it

    hashed = bcrypt.hashpw(identity.password.encode(), bcrypt.gensalt(BCRYPT_COST))
    return f"{identity.username}:{hashed.decode()}\n"
