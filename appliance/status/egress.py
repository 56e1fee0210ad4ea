"""What the model server can reach, tried from inside its control group."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from appliance.status.report import Reach
from appliance.status.units import Shown

# The cloud's metadata services, and an address that belongs to nobody (RFC 5737): the internet.
TARGETS = ("169.254.169.254", "168.63.129.16", "fd00:ec2::254", "192.0.2.1")
GROUPS = Path("/sys/fs/cgroup")


def attempt(server: Shown) -> tuple[Reach, ...]:
    """Try each target from the server's control group.

    Raises:
        ApplianceError: there is no such group now, or it cannot be entered.
    """
    group = server["ControlGroup"]
    if not group or not (GROUPS / group.lstrip("/")).is_dir():
        raise ApplianceError(
            "infinity.service does not run, so there is no control group to try it from.",
            "`sudo systemctl start infinity.service`",
        )
    targets = [*TARGETS, *own_address()]
    module = [sys.executable, "-I", "-m", "appliance.status.reach"]
    done = run([*module, GROUPS / group.lstrip("/"), *targets], timeout=5)
    pairs = [line.partition(" ") for line in done.stdout.splitlines()]
    return tuple(Reach(address, verdict) for address, _, verdict in pairs)


def own_address() -> list[str]:
    """This machine's address in its network, where nginx listens: a target that does answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        try:
            door.connect((TARGETS[-1], 9))  # sends nothing
        except OSError:
            return []
        return [str(door.getsockname()[0])]
