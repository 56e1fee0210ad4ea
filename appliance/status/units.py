"""What systemd says of the appliance's units."""

from __future__ import annotations

from dataclasses import dataclass, replace

from appliance.run import run
from appliance.status import clock
from appliance.status.report import FirstBoot, Unit

NAMES = (
    "infinity-firstboot.service",
    "infinity-model.service",
    "infinity.service",
    "nginx.service",
    "infinity-restore.path",
)
_PROPERTIES = (
    "Id,LoadState,ActiveState,SubState,Result,NRestarts,InvocationID,ControlGroup,"
    "InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic,StateChangeTimestampMonotonic,"
    "MemoryCurrent,MemoryMax"
)
LONGEST = 400  # characters of a line that a unit said


@dataclass(frozen=True)
class Shown:
    """``systemctl show`` of one unit; missing values are empty."""

    values: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "")

    def number(self, name: str) -> int | None:
        """None for what systemd does not know or does not limit."""
        value = self[name]
        return int(value) if value.isdecimal() and int(value) < 2**63 else None

    @property
    def active(self) -> bool:
        return self["ActiveState"] == "active"


def look() -> dict[str, Shown]:
    """Every unit of ours by name.

    Raises:
        ApplianceError: systemd does not answer.
    """
    done = run(["systemctl", "show", f"--property={_PROPERTIES}", *NAMES], timeout=10)
    return parse(done.stdout)


def parse(said: str) -> dict[str, Shown]:
    """Read ``systemctl show``: a block a unit, a ``Name=value`` a line."""
    shown = {}
    for block in said.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if "Id" in values:
            shown[values["Id"]] = Shown(values)
    return shown


def listed(shown: dict[str, Shown]) -> tuple[Unit, ...]:
    """The units as the report has them, with the last words of those that failed."""
    units = []
    for name, unit in shown.items():
        made = Unit(
            name=name,
            active=unit["ActiveState"],
            sub=unit["SubState"] if unit["LoadState"] == "loaded" else unit["LoadState"],
            result=unit["Result"],
            restarts=unit.number("NRestarts") or 0,
            since=clock.of_monotonic(unit.number("StateChangeTimestampMonotonic") or 0),
            said="",
        )
        if made.active == "failed" or made.restarts:
            made = replace(made, said=last_words(name))
        units.append(made)
    return tuple(units)


def last_words(name: str) -> str:
    """The newest line of a unit that has a hint, else its newest; "" where the journal is silent.

    What systemd itself says about a unit is no cause, so only the unit's processes count.
    """
    argv = ["journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=20", "--boot"]
    done = run([*argv, f"_SYSTEMD_UNIT={name}"], check=False, timeout=5)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    telling = [line for line in lines if "Hint:" in line] or lines
    return telling[-1][:LONGEST] if telling else ""


def first_boot(shown: dict[str, Shown]) -> FirstBoot:
    """How the last run of first boot ended."""
    unit = shown["infinity-firstboot.service"]
    results = {"active": "success", "failed": "failed", "activating": "running"}
    result = results.get(unit["ActiveState"], "never")
    began = unit.number("InactiveExitTimestampMonotonic") or 0
    ended = unit.number("ActiveEnterTimestampMonotonic") or 0
    success = result == "success" and ended >= began > 0
    return FirstBoot(
        result=result,
        finished=clock.of_monotonic(ended) if success else None,
        seconds=round((ended - began) / 1e6, 2) if success else None,
        said=last_words("infinity-firstboot.service") if result == "failed" else "",
    )
