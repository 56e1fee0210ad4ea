"""The newest lines of nginx's access log: who was refused, also while the server was dead."""

from __future__ import annotations

import json
import os
from pathlib import Path

from appliance.status.report import GateLog

WINDOW = 512 * 1024  # bytes


def read(path: Path) -> GateLog | None:
    """Count the newest lines; None when there are none.

    Raises:
        OSError: the log cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - WINDOW))
        lines = file.read(WINDOW).splitlines()
    return count(lines[1:] if size > WINDOW else lines)


def count(lines: list[bytes]) -> GateLog | None:
    """Lines that are none of ours are passed over."""
    seen = []
    for line in lines:
        try:
            entry = json.loads(line)
            seen.append((str(entry["time"]), int(entry["status"])))
        except (ValueError, TypeError, KeyError):
            continue
    if not seen:
        return None
    return GateLog(
        since=seen[0][0],
        total=len(seen),
        unauthorized=sum(status == 401 for _, status in seen),  # noqa: PLR2004
        failed=sum(status >= 500 for _, status in seen),  # noqa: PLR2004
    )
