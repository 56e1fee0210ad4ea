"""gixy on nginx's configuration as this machine runs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from audit.row import Row, judged
from machine.instance import Machine


def rows(machine: Machine) -> Iterator[Row]:
    program = Path(sys.executable).parent / "gixy"
    done = run([program, "--format", "json", machine.root / "etc/nginx/nginx.conf"], check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise ApplianceError(f"gixy gave no answer: {done.stderr.strip()[-200:]}") from None
    named = sorted({str(issue.get("plugin")) for issue in found})
    measured = f"{len(found)} {' '.join(named)}".strip()
    yield judged("nginx's configuration", "gixy-ng", "no finding", measured, passed=not found)
