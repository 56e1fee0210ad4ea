"""The steps of a boot. Each leaves a state from which the next boot can go on."""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import replace
from pathlib import Path

from appliance import certificates, fleet, identity, login, render
from appliance.activate import NewFile, remove_leftovers
from appliance.apply import apply
from appliance.certificates import read
from appliance.errors import ApplianceError
from appliance.facts import Facts
from appliance.files import remove, remove_tree, write_atomic
from appliance.gate import Gate
from appliance.identity import Identity
from appliance.paths import Paths
from appliance.run import run
from appliance.settings import Settings
from firstboot import stamp as stamps
from firstboot.stamp import Stamp


def make_folders(paths: Paths) -> None:
    """The folders that are ours; on an instance the packages and units have made them."""
    for path, mode in (
        (paths.credentials.parent, 0o700),
        (paths.state, 0o700),
        (paths.certificate.parent, 0o755),
        (paths.lock.parent, 0o755),
    ):
        path.mkdir(mode=mode, parents=True, exist_ok=True)


def recognise(facts: Facts, paths: Paths) -> Stamp:
    """The stamp of this instance; a disk that another one left loses its identity first.

    The order matters for a power cut: until the new stamp is written, the next boot forgets
    again; from then on, whatever credentials file there is was made for this instance. On a
    disk without a stamp, what is there came from user data and stays.
    """
    remove_leftovers([*identity_files(paths), paths.stamp, paths.machine_id])
    stamp = stamps.load(paths)
    if stamp is not None and stamp.is_of(facts, paths):
        return adopt(stamp, facts, paths)
    if stamp is not None:
        forget_identity(paths)
        renew_machine_id(paths)
    stamp = Stamp(facts.instance_id, stamps.machine_hash(paths), done=False)
    stamps.save(stamp, paths)
    return stamp


def adopt(stamp: Stamp, facts: Facts, paths: Paths) -> Stamp:
    """An instance that could not tell its id before may be able to now."""
    if stamp.instance_id is not None or facts.instance_id is None:
        return stamp
    known = replace(stamp, instance_id=facts.instance_id)
    stamps.save(known, paths)
    return known


def identity_files(paths: Paths) -> tuple[Path, ...]:
    """What this instance accepts, proves itself with, and is called."""
    return (
        paths.nginx_site,
        paths.api_key_map,
        paths.htpasswd,
        paths.certificate,
        paths.certificate_key,
        paths.earlier_certificate,
        paths.credentials,
        paths.settings,
    )


def forget_identity(paths: Paths) -> None:
    """Nothing of it may live on in another instance."""
    for path in identity_files(paths):
        remove(path)
    for folder in ("accounts", "archive", "csr", "keys", "live", "renewal"):
        # Keys of certificates and of the account that ordered them.
        remove_tree(paths.letsencrypt / folder)


def renew_machine_id(paths: Paths) -> None:
    """A copy of a disk would share the original's; systemd makes one only where there is none."""
    import uuid  # noqa: PLC0415 - no other boot has a use for it

    write_atomic(paths.machine_id, uuid.uuid4().hex + "\n", 0o444)
    if paths.root == Path("/"):
        # journald would go on under the old id until a reboot, where journalctl no longer looks.
        run(["systemctl", "try-restart", "systemd-journald.service"], check=False)


def join_fleet(settings: Settings, gate: Gate) -> None:
    """One of a fleet serves with the fleet's secrets, and its credentials file holds none."""
    paths = gate.paths
    if not fleet.configured(paths).shared:
        return
    fleet.link(paths)
    text = render.credentials(settings, Identity(api_key="", password=""))
    if read(paths.credentials) != text.encode():
        write_atomic(paths.credentials, text, 0o600, gate.secret_owner)


def ensure_credentials(settings: Settings, gate: Gate) -> Identity:
    """The secrets of this instance, in the credentials file before anything accepts them.

    What nginx accepts already stays, by whomever it was written; so does what the file says.
    Only what neither of them has is made.
    """
    paths = gate.paths
    told = identity.load(paths)
    if paths.api_key_map.exists():
        key = identity.first_key(paths) or ""
    else:
        key = told.api_key or identity.new_api_key()
    password = told.password
    if login.disabled(paths):
        password = ""
    elif not paths.htpasswd.exists():
        password = password or identity.new_password()
    who = Identity(api_key=key, password=password)
    if not (paths.api_key_map.exists() and paths.htpasswd.exists()):
        before = read(paths.credentials).decode()
        text = render.credentials(settings, who, before)
        write_atomic(paths.credentials, text, 0o600, gate.secret_owner)
    return who


def nothing_to_do(
    stamp: Stamp, settings: Settings, previous: Settings | None, paths: Paths
) -> bool:
    """Whether the last boot's work is whole and still right."""
    files = (
        paths.nginx_site,
        paths.api_key_map,
        paths.htpasswd,
        paths.certificate,
        paths.certificate_key,
    )
    return stamp.done and settings == previous and all(path.exists() for path in files)


def secret_files(who: Identity, gate: Gate) -> list[NewFile]:
    """What lets the credentials in, where it is missing."""
    paths = gate.paths
    files = []
    if not paths.api_key_map.exists():
        files.append(NewFile(paths.api_key_map, render.key_map(who), 0o600, gate.secret_owner))
    if not paths.htpasswd.exists():
        line = login.DISABLED if login.disabled(paths) else identity.htpasswd_line(who)
        files.append(NewFile(paths.htpasswd, line, 0o640, gate.login_owner))
    return files


def renew_certificate(settings: Settings, gate: Gate, now: dt.datetime) -> None:
    """Replace our certificate when its dates ask for it.

    What stands in the way of that must not keep nginx from starting with the one there is:
    who knows its key or trusts it beyond its dates gets in, and the operator by SSH does.
    """
    if not certificates.looks_due(gate.paths, now):
        return
    try:
        apply(certificates.fitting(settings, gate, now), settings, gate)
    except ApplianceError as error:
        print(f"infinity-firstboot: The certificate was not renewed. {error}", file=sys.stderr)
