"""The timer that ends grace periods: there only while a key has one, over reboots too."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from appliance.files import remove, write_atomic
from appliance.gate import Gate
from appliance.run import run

TIMER = "infinity-key-expiry.timer"
_UNIT = """\
# Written by infinity-api-key: the moments at which a key's grace period ends.

[Unit]
Description=End of the grace period of an API key

[Timer]
{moments}
Persistent=yes
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def arm(ends: Sequence[dt.datetime], gate: Gate) -> None:
    """Have `infinity-api-key expire` run at these moments (UTC), and not at earlier ones.

    Away from an instance there is no systemd, and whoever runs nginx there ends grace periods.
    """
    if not gate.is_service:
        return
    unit = gate.paths.root / "etc/systemd/system" / TIMER
    if ends:
        moments = "\n".join(f"OnCalendar={end:%Y-%m-%d %H:%M:%S} UTC" for end in sorted(set(ends)))
        write_atomic(unit, _UNIT.format(moments=moments), 0o644)
        run(["systemctl", "daemon-reload"])
        run(["systemctl", "enable", "--quiet", TIMER])
        run(["systemctl", "restart", TIMER])
    elif unit.exists():
        run(["systemctl", "disable", "--quiet", "--now", TIMER])
        remove(unit)
        run(["systemctl", "daemon-reload"])
