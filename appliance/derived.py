"""The files that follow from the settings, the certificate apart."""

from __future__ import annotations

from appliance import render, settings
from appliance.activate import NewFile
from appliance.gate import Gate
from appliance.settings import Settings


def files(wanted: Settings, gate: Gate) -> list[NewFile]:
    """The settings themselves, nginx's site, and the credentials file where it tells otherwise."""
    paths = gate.paths
    made = [
        NewFile(paths.settings, settings.as_text(wanted), 0o600, gate.secret_owner),
        NewFile(paths.nginx_site, render.site(wanted, paths.templates), 0o644, gate.secret_owner),
    ]
    if paths.credentials.exists():
        text = paths.credentials.read_text("utf-8")
        true = render.updated_credentials(text, render.described(wanted))
        if true != text:
            made.append(NewFile(paths.credentials, true, 0o600, gate.secret_owner))
    return made
