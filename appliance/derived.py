"""The files that follow from the settings, the certificate apart."""

from __future__ import annotations

from collections.abc import Mapping

from appliance import render, settings
from appliance.activate import NewFile
from appliance.gate import Gate
from appliance.settings import Settings


def files(wanted: Settings, gate: Gate) -> list[NewFile]:
    """The settings themselves, nginx's site, and the credentials file where it tells otherwise."""
    paths = gate.paths
    site = render.site(wanted, paths.templates)
    return [
        *described(wanted, gate),
        NewFile(paths.nginx_site, site, 0o644, gate.secret_owner),
    ]


def described(wanted: Settings, gate: Gate) -> list[NewFile]:
    """``files`` for a change that nginx does not see."""
    kept = NewFile(gate.paths.settings, settings.as_text(wanted), 0o600, gate.secret_owner)
    return [kept, *credentials(render.described(wanted), gate)]


def credentials(values: Mapping[str, str], gate: Gate, *, add: bool = False) -> list[NewFile]:
    """The credentials file with these values, where it tells otherwise.

    Nothing where the operator has deleted it. ``add`` writes entries that it does not have.
    """
    path = gate.paths.credentials
    if not path.exists():
        return []
    text = path.read_text("utf-8")
    true = render.updated_credentials(text, values, add=add)
    return [] if true == text else [NewFile(path, true, 0o600, gate.secret_owner)]
