"""What the instance is, as its surroundings tell: gathered once, then only read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from appliance import names
from appliance.errors import ApplianceError
from appliance.imds import Imds, MetadataError
from appliance.paths import Paths

_INSTANCE_ID = re.compile(r"i-[0-9a-z]{1,32}")


@dataclass(frozen=True)
class Facts:
    """Each field is None when there is no such thing.

    ``problem`` says why the metadata service told not all; all names are None then.
    """

    instance_id: str | None = None
    public_hostname: str | None = None
    public_ipv4: str | None = None
    local_hostname: str | None = None
    local_ipv4: str | None = None
    problem: ApplianceError | None = None

    @property
    def best_name(self) -> str | None:
        """The name to serve: public before private, a name before an address."""
        return self.public_hostname or self.public_ipv4 or self.local_hostname or self.local_ipv4


def gather(imds: Imds, paths: Paths) -> Facts:
    """Ask IMDSv2 for everything; where it is silent, DMI for the instance id."""
    # An id that was told stands, whatever comes after it: a copy of a disk must not go on with the
    # original's secrets because one of the names is garbage.
    instance_id = None
    try:
        instance_id = _instance_id(imds.get("meta-data/instance-id"))
        return Facts(
            instance_id=instance_id,
            public_hostname=_name(imds, "public-hostname"),
            public_ipv4=_name(imds, "public-ipv4"),
            local_hostname=_name(imds, "local-hostname"),
            local_ipv4=_name(imds, "local-ipv4"),
        )
    except MetadataError as error:
        return Facts(instance_id=instance_id or _from_dmi(paths), problem=error)


def _name(imds: Imds, key: str) -> str | None:
    """A host name or address; what is neither must not get into a configuration."""
    value = imds.get(f"meta-data/{key}")
    # The private DNS name lists several names where a VPC has several domains: the first counts.
    first = (value or "").split(" ", 1)[0]
    if not first:
        return None
    try:
        return names.normal(first)
    except ApplianceError as error:
        raise _garbage(key) from error


def _instance_id(value: str | None) -> str | None:
    if value and not _INSTANCE_ID.fullmatch(value):
        raise _garbage("instance-id")
    return value or None


def _garbage(key: str) -> MetadataError:
    return MetadataError(
        f"The instance metadata service answered garbage for {key}.",
        "Something else answers on its address; check proxies and routes on this instance.",
    )


def _from_dmi(paths: Paths) -> str | None:
    """Nitro instances carry their id as the board's asset tag."""
    try:
        tag = paths.asset_tag.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return tag if _INSTANCE_ID.fullmatch(tag) else None
