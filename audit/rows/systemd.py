"""systemd's own judgement of how much each service is sandboxed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from appliance.errors import ApplianceError
from audit.row import Row, judged
from machine.instance import Machine

# Out of 10; lower is better. nginx's master has to be root, and first boot writes secrets.
BARS = {"infinity.service": 1.5, "nginx.service": 2.6, "infinity-firstboot.service": 3.0,
        "infinity-model.service": 1.5}  # fmt: skip


def rows(machine: Machine) -> Iterator[Row]:
    for unit, bar in BARS.items():
        found = exposure(machine, unit)
        yield judged(
            f"sandbox of {unit.removesuffix('.service')}",
            "systemd-analyze security",
            f"<= {bar}",
            f"{found}",
            passed=found <= bar,
        )


def exposure(machine: Machine, unit: str) -> float:
    """The exposure level of a unit, 0 (locked in) to 10."""
    said = machine.exec(["systemd-analyze", "security", "--no-pager", unit]).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    if not found:
        raise ApplianceError(f"systemd-analyze says nothing about {unit}.")
    return float(found[1])
