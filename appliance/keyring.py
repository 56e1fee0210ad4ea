"""Changes of the key map: a key more, a new one for an old one, one less. Each is one `apply`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from appliance import derived, expiry, identity, keys
from appliance.activate import NewFile
from appliance.apply import apply
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.keys import Key
from appliance.paths import Paths
from appliance.settings import Settings

_LIST = "`infinity-api-key list` shows the names."


def read(paths: Paths) -> str:
    """The key map. Bytes that are no UTF-8 survive reading and writing."""
    return paths.api_key_map.read_bytes().decode("utf-8", "surrogateescape")


def accepted(paths: Paths) -> tuple[Key, ...]:
    """Every key that is let in now."""
    return keys.parse(read(paths))


def add(name: str, known: Settings, gate: Gate, say: Callable[[str], None]) -> None:
    """Let one more key in.

    Args:
        name: what it is called.
        known: the settings.
        gate: whose key map.
        say: hands the key over; when that fails, nothing has changed. It is written down nowhere
            else in plain text but in nginx's map.

    Raises:
        ApplianceError: the name is taken; or as ``apply``.
    """
    text = read(gate.paths)
    if any(key.name == name for key in keys.parse(text)):
        raise ApplianceError(
            f"There is a key of the name {name} already.",
            f"`infinity-api-key rotate {name}` makes a new one for it.",
        )
    made = identity.new_api_key()
    _put(_appended(text, keys.line(name, made)), known, gate, lambda: say(made))


def rotate(
    name: str, grace: dt.timedelta, known: Settings, gate: Gate, say: Callable[[str], None]
) -> None:
    """A new key under the name; the old one is let in for the grace period, then no more.

    ``say`` hands the new key over, as for ``add``.

    Raises:
        ApplianceError: there is no such key; or as ``apply``.
    """
    text, now = read(gate.paths), _now()
    until = now + grace if grace else None
    made = identity.new_api_key()
    old = _named(text, name)
    changes = {key: _fading(key, until) for key in old}
    # The new key takes the place of the one that was good for ever: the first stays the first.
    current = next((key for key in old if key.until is None), old[0])
    changes[current] = keys.line(name, made) + changes[current]
    edited = keys.edited(text, changes)
    # Before, so that no key outlives its grace; the old ends too: the change may not come to stand.
    expiry.arm([*_ends(text), *_ends(edited)], gate)
    _put(edited, known, gate, lambda: say(made))


def revoke(name: str, known: Settings, gate: Gate) -> None:
    """Let the key in no more; neither those in their grace period.

    Raises:
        ApplianceError: there is no such key; or as ``apply``.
    """
    text = read(gate.paths)
    old = _named(text, name)
    edited = keys.edited(text, dict.fromkeys(old, ""))
    _put(edited, known, gate)


def expire(known: Settings, gate: Gate) -> tuple[str, ...]:
    """Let no key in whose grace period is over.

    Returns:
        The names of the keys that were removed.
    """
    text, now = read(gate.paths), _now()
    over = [key for key in keys.parse(text) if key.over(now)]
    if over:
        edited = keys.edited(text, dict.fromkeys(over, ""))
        _put(edited, known, gate)
        text = edited
    expiry.arm(_ends(text), gate)
    return tuple(key.name for key in over)


def _put(text: str, known: Settings, gate: Gate, then: Callable[[], None] | None = None) -> None:
    """The new map, and the credentials file with a key that it lets in."""
    paths = gate.paths
    raw = text.encode("utf-8", "surrogateescape")
    files = [NewFile(paths.api_key_map, raw, 0o600, gate.secret_owner)]
    told = identity.read_credentials(paths).get("INFINITY_API_KEY")
    true = None if told is None else _to_tell(told, accepted(paths), keys.parse(text))
    if true is not None:
        files += derived.credentials({"INFINITY_API_KEY": true}, gate)
    apply(files, known, gate, then)


def _to_tell(told: str, before: Sequence[Key], after: Sequence[Key]) -> str:
    """The key for the credentials file: the one it tells, its successor, or one without a name."""
    lasting = [key for key in after if key.until is None]
    if any(key.token == told for key in lasting):
        return told
    names = [key.name for key in before if key.token == told] + [keys.UNNAMED]
    return next((key.token for name in names for key in lasting if key.name == name), "")


def _named(text: str, name: str) -> list[Key]:
    found = [key for key in keys.parse(text) if key.name == name]
    if not found:
        raise ApplianceError(f"There is no key of the name {name}.", _LIST)
    return found


def _fading(key: Key, until: dt.datetime | None) -> str:
    """The line of a key that is being replaced: gone, or good until then at the latest."""
    if until is None:
        return ""
    return keys.line(key.name, key.token, min(until, key.until or until))


def _appended(text: str, line: str) -> str:
    return text + ("" if not text or text.endswith("\n") else "\n") + line


def _ends(text: str) -> list[dt.datetime]:
    ends = {key.until for key in keys.parse(text) if key.until is not None}
    return sorted(ends - {keys.NEVER_WAS})


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
