"""ssh-audit over the network: the algorithms that sshd offers."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.errors import ApplianceError
from appliance.run import run
from audit.row import Row, judged
from machine.instance import Machine


def rows(machine: Machine) -> Iterator[Row]:
    done = run(["ssh-audit", "--no-colors", machine.address], check=False, timeout=120)
    said = done.stdout.splitlines()
    if not any(line.startswith("(kex)") for line in said):
        raise ApplianceError(f"ssh-audit listed no algorithm: {done.stderr.strip()}")
    failed = [line.split()[1] for line in said if "[fail]" in line and line.startswith("(")]
    measured = f"{len(failed)} failed {' '.join(failed)}".strip()
    yield judged("sshd's algorithms", "ssh-audit", "no fail", measured, passed=not failed)
