"""Which certificate the gate shows: ours for its names and in date, or the operator's as it is."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.activate import NewFile
from appliance.apply import apply
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.glance import in_order, look
from appliance.paths import Paths
from appliance.settings import Settings

if TYPE_CHECKING:  # it reads certificates in full, which takes long to import
    from appliance.chain import Pair


def fitting(settings: Settings, gate: Gate, now: dt.datetime) -> list[NewFile]:
    """What to write so that the certificate is right; nothing where it is, or is the operator's."""
    from appliance import tls  # noqa: PLC0415 - a boot with nothing to do does not pay for it

    paths = gate.paths
    if paths.certificate.is_symlink():
        return []  # ours never is: one that leads nowhere is to be mended by its owner
    key, present = read(paths.certificate_key), read(paths.certificate)
    if present and not tls.is_own(present, key):
        return []  # the operator's: nginx's test says if it is broken
    if present and key and tls.is_for(present, settings.hosts) and not tls.is_due(present, now):
        alone = tls.first(present)  # ``put`` may have been cut off before its last step
        made = NewFile(paths.certificate, alone, 0o644, gate.secret_owner)
        return [] if present == alone else [made]
    return own(settings, gate, now, key)


def own(settings: Settings, gate: Gate, now: dt.datetime, key: bytes = b"") -> list[NewFile]:
    """A self-signed certificate for the names, by this key or a new one.

    The one before it is remembered. Clients hold copies of it, so it comes back when it is right
    again: after a clock that was years off, or a name that was given up for a while.
    """
    from appliance import tls  # noqa: PLC0415 - a boot with nothing to do does not pay for it

    paths = gate.paths
    present, earlier = tls.first(read(paths.certificate)), read(paths.earlier_certificate)
    files = []
    if not key:
        key = tls.new_key()
        files.append(NewFile(paths.certificate_key, key, 0o600, gate.secret_owner))
    right = (
        earlier
        and tls.is_own(earlier, key)
        and tls.is_for(earlier, settings.hosts)
        and not tls.is_due(earlier, now)
    )
    made = earlier if right else tls.self_signed(key, settings.hosts, now)
    files.append(NewFile(paths.certificate, made, 0o644, gate.secret_owner))
    if present and tls.is_own(present, key):
        files.append(NewFile(paths.earlier_certificate, present, 0o600, gate.secret_owner))
    return files


def ours_again(settings: Settings, gate: Gate, now: dt.datetime) -> list[NewFile]:
    """What to write so that the certificate is ours, whoever's it is now."""
    from appliance import tls  # noqa: PLC0415 - as above

    paths = gate.paths
    present, key = read(paths.certificate), read(paths.certificate_key)
    if not paths.certificate.is_symlink() and (not present or tls.is_own(present, key)):
        return fitting(settings, gate, now)
    return own(settings, gate, now)  # with a new key: the operator's is the operator's


def operators(pair: Pair, gate: Gate) -> list[NewFile]:
    """The operator's pair in place of what is there."""
    return [
        NewFile(gate.paths.certificate_key, pair.key, 0o600, gate.secret_owner),
        NewFile(gate.paths.certificate, pair.chain, 0o644, gate.secret_owner),
    ]


def looks_due(paths: Paths, now: dt.datetime) -> bool:
    """Whether it seems to be ours and not in date; ``fitting`` looks closely."""
    seen = look(paths.certificate)
    return seen is not None and seen.ours and not in_order(seen.starts, seen.ends, now)


def put(files: list[NewFile], settings: Settings, gate: Gate) -> None:
    """``apply`` for files that include the certificate, while clients go on reading its file.

    Until nginx shows the new certificate, who reads the file has to trust the old one, and from
    then on the new one. So in between it holds both.

    Raises:
        ApplianceError: what failed; everything is as it was before.
    """
    from appliance import tls  # noqa: PLC0415 - first boot imports this module in every boot

    old = tls.first(read(gate.paths.certificate)) if gate.running() else b""
    certificate = [file for file in files if file.path == gate.paths.certificate]
    if not old or not certificate:
        apply(files, settings, gate)
        return
    others = [file for file in files if file.path != gate.paths.certificate]
    (new,) = certificate
    apply([*others, replace(new, data=bytes_of(new) + old)], settings, gate)
    # The change stands. A superfluous certificate does no harm until the next one.
    with suppress(ApplianceError, OSError):
        new.write()
        gate.tell()


def bytes_of(file: NewFile) -> bytes:
    return file.data.encode() if isinstance(file.data, str) else file.data or b""


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
