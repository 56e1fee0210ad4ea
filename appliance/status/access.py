"""Who is let in: keys by name, the login, and whether the credentials file tells the truth."""

from __future__ import annotations

import re

from appliance import identity, keys
from appliance.errors import ApplianceError
from appliance.paths import Paths
from appliance.settings import Settings
from appliance.status import clock
from appliance.status.report import ApiKey, ApiKeys, CredentialsFile, Login

# What stands for a password that nobody has: crypt(3) gives no such hash.
_NO_HASH = ("", "!", "*", "x")
# A name that looks like a secret is one: an operator has mistaken the columns.
_LIKE_A_KEY = re.compile(r"(?i)inf-[0-9a-f]{8,}|bearer |[A-Za-z0-9+/_-]{32,}")
HIDDEN = "(a name like a key)"


def api_keys(paths: Paths) -> ApiKeys:
    """Names and ends of the keys, never a key.

    Raises:
        OSError: the map cannot be read.
    """
    text = paths.api_key_map.read_text("utf-8", "replace")
    listed = keys.parse(text)
    named = tuple(
        ApiKey(shown(key.name), clock.stamp(key.until.timestamp()) if key.until else None)
        for key in listed
    )
    return ApiKeys(len(named), named, keys.unread(text))


def shown(name: str) -> str:
    return HIDDEN if _LIKE_A_KEY.search(name) else name


def login(paths: Paths) -> Login:
    """The users whose lines have a hash.

    Raises:
        OSError: the file cannot be read.
    """
    users = tuple(shown(user) for user, hashed in _lines(paths) if hashed not in _NO_HASH)
    return Login(enabled=identity.USERNAME in users, users=users)


def _lines(paths: Paths) -> list[tuple[str, str]]:
    lines = paths.htpasswd.read_text("utf-8", "replace").splitlines()
    parts = [line.split(":") for line in lines if ":" in line and not line.startswith("#")]
    return [(words[0], words[1].strip()) for words in parts]


def credentials_file(paths: Paths, settings: Settings | None) -> CredentialsFile:
    """Compare the credentials file with what is accepted. Its absence is the operator's choice.

    Raises:
        ApplianceError, OSError: something cannot be read.
    """
    try:
        told = identity.read_credentials(paths)
    except ApplianceError:
        if paths.credentials.exists():
            raise
        told = {}
    if not paths.credentials.exists():
        return CredentialsFile(present=False, untrue=())
    untrue = []
    if settings and told.get("INFINITY_HOST", settings.hostname) != settings.hostname:
        untrue.append("INFINITY_HOST")
    if settings and told.get("INFINITY_URL", settings.url) != settings.url:
        untrue.append("INFINITY_URL")
    accepted = {key.token for key in keys.parse(paths.api_key_map.read_text("utf-8", "replace"))}
    if told.get("INFINITY_API_KEY") and told["INFINITY_API_KEY"] not in accepted:
        untrue.append("INFINITY_API_KEY")
    if told.get("INFINITY_PASSWORD") and not _is_password(told["INFINITY_PASSWORD"], paths):
        untrue.append("INFINITY_PASSWORD")
    return CredentialsFile(present=True, untrue=tuple(untrue))


def _is_password(password: str, paths: Paths) -> bool:
    import bcrypt  # noqa: PLC0415 - only where there is a password to check

    hashed = dict(_lines(paths)).get(identity.USERNAME, "")
    try:
        return hashed not in _NO_HASH and bcrypt.checkpw(password.encode(), hashed.encode())
    except ValueError:  # another kind of hash, which only nginx can check
        return not hashed.startswith("$2")
