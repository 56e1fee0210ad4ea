"""Instances that share one set of API keys and one login, kept in AWS Secrets Manager.

/etc/infinity/fleet.env, which user data writes, names the secret:

    FLEET_SECRET_ARN=arn:aws:secretsmanager:…

Its value is JSON: ``{"api_keys": {"search-team": "inf-…", "ci": ["inf-new…", "inf-old…"]},
"password": "…"}``, or ``{"api_key": "…"}`` for one key without a name. Without a password there is
no login. On the instance they are in memory only (below /run), where nginx follows a link to them:
neither its disk nor an image of it holds them.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from appliance import identity, keys, login
from appliance.activate import NewFile
from appliance.errors import ApplianceError
from appliance.files import remove, sync_directory
from appliance.gate import Gate
from appliance.identity import Identity
from appliance.paths import Paths

SHORTEST_KEY, LONGEST_KEY = 32, 256  # characters
_ARN = re.compile(r"arn:aws[a-z-]*:secretsmanager:(?P<region>[a-z0-9-]+):\d{12}:secret:[\w/+=.@-]+")
_SHAPE = 'It holds JSON such as {"api_keys": {"search-team": "inf-…"}, "password": "…"}.'
_NAMES = frozenset(
    {"FLEET_SECRET_ARN", "CREDENTIALS_SECRET_ARN", "AWS_ENDPOINT_URL_SECRETS_MANAGER"}
)
_SYNC = "Change the secret in Secrets Manager, then run `infinity-fleet-sync`."


@dataclass(frozen=True)
class Secrets:
    """The secrets in Secrets Manager that fleet.env names; ``endpoint`` is "" for AWS's own."""

    shared: str = ""  # read: everybody's keys and login
    published: str = ""  # written: this instance's own credentials
    endpoint: str = ""


@dataclass(frozen=True)
class Shared:
    """What the secret says: (name, key) pairs, and a password or ""."""

    api_keys: tuple[tuple[str, str], ...] = field(repr=False)
    password: str = field(repr=False)


def configured(paths: Paths) -> Secrets:
    """What fleet.env names; nothing when there is no such file.

    Raises:
        ApplianceError: the file cannot be read, or names what is no secret's ARN.
    """
    try:
        lines = paths.fleet_env.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return Secrets()
    except (OSError, UnicodeDecodeError) as error:
        raise ApplianceError(
            f"{paths.fleet_env} cannot be read.", "It holds lines such as FLEET_SECRET_ARN=arn:…"
        ) from error
    said = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    pairs = (line.partition("=") for line in said)
    values = {key.strip(): value.strip() for key, _, value in pairs}
    if not values.keys() <= _NAMES or not all(values.values()):
        raise ApplianceError(  # a slip must not make a member serve with keys of its own
            f"{paths.fleet_env} has a line that is not NAME=VALUE of a known name.",
            f"The names are {', '.join(sorted(_NAMES))}.",
        )
    named = Secrets(
        shared=values.get("FLEET_SECRET_ARN", ""),
        published=values.get("CREDENTIALS_SECRET_ARN", ""),
        endpoint=values.get("AWS_ENDPOINT_URL_SECRETS_MANAGER", ""),
    )
    for arn in (named.shared, named.published):
        if arn:
            region(arn)
    return named


def region(arn: str) -> str:
    """The region that a secret is in.

    Raises:
        ApplianceError: it is no secret's ARN.
    """
    found = _ARN.fullmatch(arn)
    if found is None:
        raise ApplianceError(
            "fleet.env names something that is no ARN of a secret.",
            "It begins with arn:aws:secretsmanager: and is shown in Secrets Manager.",
        )
    return found["region"]


def parsed(text: str) -> Shared:
    """The secret's value, checked.

    Raises:
        ApplianceError: it is not of the shape above; nothing of it is in the message.
    """
    try:
        raw = json.loads(text)
        listed = dict(raw.get("api_keys") or {})
        if "api_key" in raw:
            listed[keys.UNNAMED] = raw["api_key"]
        password = raw.get("password") or ""
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ApplianceError("The fleet's secret is not of the right shape.", _SHAPE) from error
    pairs = tuple(
        (name, key)
        for name, value in listed.items()
        for key in (value if isinstance(value, list) else [value])
    )
    if not pairs or not all(_good(name, key) for name, key in pairs):
        raise ApplianceError(
            "The fleet's secret has no key, or one that nginx does not take.",
            f"A key has {SHORTEST_KEY} to {LONGEST_KEY} characters and no capitals; a name is "
            "a letter, then letters, digits, dots, hyphens and underscores.",
        )
    if len({key for _, key in pairs}) != len(pairs):
        raise ApplianceError("The fleet's secret has one key twice.", _SHAPE)
    if password:
        if not isinstance(password, str):
            raise ApplianceError("The password in the fleet's secret is no text.", _SHAPE)
        login.check(password)
    return Shared(pairs, password)


def files(shared: Shared, gate: Gate) -> list[NewFile]:
    """Those of nginx's two files in memory that do not yet say what the secret says."""
    paths = gate.paths
    wanted = []
    listed = "".join(keys.line(name, key) for name, key in shared.api_keys)
    if _text(paths.fleet_api_key_map) != listed:
        wanted.append(NewFile(paths.fleet_api_key_map, listed, 0o600, gate.secret_owner))
    hashed = _text(paths.fleet_htpasswd)
    password = "" if login.disabled(paths) else shared.password
    if not (hashed and _says(hashed, password)):
        line = login.DISABLED
        if password:
            line = identity.htpasswd_line(Identity(api_key="", password=password))
        wanted.append(NewFile(paths.fleet_htpasswd, line, 0o640, gate.login_owner))
    return wanted


def link(paths: Paths) -> None:
    """Have nginx read the shared secrets in place of the instance's own.

    Raises:
        ApplianceError: they have not been fetched: an instance that cannot know the fleet's keys
            must not serve with keys of its own.
    """
    if not (paths.fleet_api_key_map.exists() and paths.fleet_htpasswd.exists()):
        raise ApplianceError(
            "The fleet's secret has not been read.",
            "See `journalctl -u infinity-fleet`; the instance's role must allow "
            "secretsmanager:GetSecretValue on it. Then `systemctl start infinity-firstboot`.",
        )
    for path, target in (
        (paths.api_key_map, paths.fleet_api_key_map),
        (paths.htpasswd, paths.fleet_htpasswd),
    ):
        if not (path.is_symlink() and os.readlink(path) == str(target)):
            remove(path)
            path.symlink_to(target)
            sync_directory(path.parent)


def refuse_by_hand(paths: Paths) -> None:
    """One instance of a fleet must not go its own way.

    Raises:
        ApplianceError: this is one of a fleet.
    """
    if configured(paths).shared:
        raise ApplianceError("The keys and the login of this instance are its fleet's.", _SYNC)


def _good(name: object, key: object) -> bool:
    named = isinstance(name, str) and (name == keys.UNNAMED or bool(keys.NAME.fullmatch(name)))
    return (
        named
        and name != keys.LOGIN
        and isinstance(key, str)
        and SHORTEST_KEY <= len(key) <= LONGEST_KEY
        and bool(keys.TOKEN.fullmatch(key))
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""


def _says(htpasswd: str, password: str) -> bool:
    import bcrypt  # noqa: PLC0415 - only a fleet needs it here

    if not password:
        return htpasswd == login.DISABLED
    _, _, hashed = htpasswd.strip().partition(":")
    try:
        return bcrypt.checkpw(password.encode(), hashed.encode())
    except ValueError:
        return False
