"""Security updates that wait, counted in the background because apt takes seconds for it.

infinity-updates.service runs this module when apt has new lists or has installed something;
`infinity-status` only reads the result, and has it counted again where it is out of date.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.files import write_atomic
from appliance.run import run
from appliance.status import clock
from appliance.status.report import Updates

COUNT = Path("/var/cache/infinity-updates/count.json")
UNIT = "infinity-updates.service"
LISTS = Path("/var/lib/apt/lists")
INSTALLED = Path("/var/lib/dpkg/status")
REBOOT = Path("/run/reboot-required")
# "Inst libssl3 [1.0] (1.1 Debian-Security:12/stable-security [amd64])"; Ubuntu: noble-security.
_SECURITY = re.compile(r"Inst \S+ .*\(.*[-/:]\S*security", re.IGNORECASE)


@dataclass(frozen=True)
class Count:
    """``based_on`` changes when apt's lists or the installed packages do; ``since``: not 0."""

    security: int
    counted: str
    based_on: str
    since: str | None


def main() -> int:
    """Count and write the result down."""
    try:
        base = basis()
        done = run(
            ["apt-get", "--simulate", "-o", "Debug::NoLocking=1", "dist-upgrade"],
            timeout=300,
            env={"PATH": "/usr/bin:/usr/sbin:/bin:/sbin", "LC_ALL": "C"},
        )
        number = waiting(done.stdout)
        before = load(COUNT)
        first = before.since if before and before.since else clock.now()
        made = Count(number, clock.now(), base, first if number else None)
        write_atomic(COUNT, json.dumps(asdict(made)) + "\n", 0o644)
    except ApplianceError as error:
        print(f"infinity-updates: {error}", file=sys.stderr)
        return 1
    return 0


def waiting(said: str) -> int:
    """How many of the packages that apt would install come from a security archive."""
    return sum(bool(_SECURITY.match(line)) for line in said.splitlines())


def look(path: Path = COUNT) -> Updates:
    """What was counted last; a count that is out of date is started anew."""
    count = load(path)
    if count is None or count.based_on != basis():
        run(["systemctl", "start", "--no-block", UNIT], check=False, timeout=5)
    if not has_lists():
        count = None  # nothing to compare with: not even apt knows
    hours = (time.time() - _seconds(count.since)) / 3600 if count and count.since else None
    return Updates(
        security=count.security if count else None,
        counted=count.counted if count else None,
        waiting_hours=None if hours is None else round(hours, 1),
        reboot_required=REBOOT.exists(),
    )


def load(path: Path) -> Count | None:
    try:
        raw = json.loads(path.read_text("utf-8"))
        since = raw["since"]
        return Count(int(raw["security"]), str(raw["counted"]), str(raw["based_on"]),
                     None if since is None else str(since))  # fmt: skip
    except (OSError, ValueError, TypeError, KeyError):
        return None


def has_lists() -> bool:
    return any(LISTS.glob("*_Packages*"))


def basis() -> str:
    times = [path.stat().st_mtime_ns if path.exists() else 0 for path in (LISTS, INSTALLED)]
    return " ".join(map(str, times))


def _seconds(moment: str) -> float:
    return time.time() - clock.age(moment)


if __name__ == "__main__":
    sys.exit(main())
