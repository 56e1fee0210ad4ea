"""The names that are served: chosen by the operator, or told by metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from appliance import derived, names
from appliance.activate import NewFile
from appliance.command import UsageError
from appliance.errors import ApplianceError
from appliance.facts import Facts
from appliance.gate import Gate
from appliance.settings import Settings


def renamed(known: Settings, told: Sequence[str], *, followed: bool) -> Settings:
    """The settings with other names; the first of ``told`` (``names.normal``) is the host's."""
    hostname, *others = dict.fromkeys(told)
    return replace(known, hostname=hostname, aliases=tuple(others), followed=followed)


def of_metadata(facts: Facts) -> str:
    """The name that metadata has for this instance.

    Raises:
        ApplianceError: it has none, or does not answer.
    """
    if facts.best_name:
        return facts.best_name
    why = facts.problem.message if facts.problem else "It has no name or address."
    raise ApplianceError(
        f"Instance metadata told no name. {why}", "Give a name instead: infinity-set-hostname NAME."
    )


def files(wanted: Settings, gate: Gate) -> list[NewFile]:
    """Everything that says the names, the certificate apart."""
    path = gate.paths.hostname
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    chosen = None if wanted.followed else f"{wanted.hostname}\n"
    return [NewFile(path, chosen, 0o644, gate.secret_owner), *derived.files(wanted, gate)]


def for_certificate_authority(hosts: Sequence[str]) -> None:
    """Check that an ACME server can be asked to certify all of them.

    Raises:
        UsageError: one is an address, or has no domain.
    """
    for host in hosts:
        if names.as_address(host) or "." not in host:
            raise UsageError(
                f"No certificate can be ordered for {host}.",
                "Give names of a public domain, such as embeddings.example.com.",
            )
