"""Which instance this is: as its identity says, as the metadata service says."""

from __future__ import annotations

import json
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.imds import Imds
from appliance.paths import Paths
from appliance.settings import Settings
from appliance.status.report import Host, Instance

PATIENCE = 0.4  # seconds; a metadata service that is there answers in milliseconds


def instance(paths: Paths, imds: Imds | None = None) -> Instance:
    """Never fails: what nobody tells is None."""
    service = imds or Imds(deadline=PATIENCE)
    told = {}
    try:
        for key in ("instance-id", "instance-type"):
            told[key] = service.get(f"meta-data/{key}")
    except ApplianceError:
        told.setdefault("instance-type", _dmi(paths))
    return Instance(
        id=stamped(paths), type=told.get("instance-type"), metadata_id=told.get("instance-id")
    )


def stamped(paths: Paths) -> str | None:
    """The instance that first boot made this identity for; None where it could not tell."""
    try:
        found = json.loads(paths.stamp.read_text("utf-8"))["instance_id"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return found if isinstance(found, str) else None


def host(settings: Settings) -> Host:
    return Host(settings.hostname, settings.url, settings.aliases, settings.followed)


def _dmi(paths: Paths) -> str | None:
    """On Nitro the product's name is the instance type."""
    folder = paths.root / "sys/class/dmi/id"
    if _read(folder / "sys_vendor") != "Amazon EC2":
        return None
    return _read(folder / "product_name") or None


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
