"""What first boot costs, as systemd accounts it: CPU time, which other load does not stretch much.

The bounds are the product's own. Each is tried twice, because a shared CPU also makes the same
instructions slower by a third from one minute to the next.
"""

from __future__ import annotations

import probe
import pytest
from test_failures import UNIT, unborn

from machine.instance import Machine

pytestmark = pytest.mark.boot

FIRST_BOOT = 1.5  # seconds of CPU
LATER_BOOT = 0.3
COMMAND = 1.0


def restart(machine: Machine) -> float:
    machine.exec(["systemctl", "restart", UNIT, "nginx.service"])
    return int(probe.show(machine, UNIT, "CPUUsageNSec")) / 1e9


def test_first_boot_is_short(fragile: Machine) -> None:
    took = []
    for _ in range(2):
        unborn(fragile)
        took.append(restart(fragile))
    assert min(took) <= FIRST_BOOT, took


def test_boot_with_nothing_to_do_is_shorter(shared: Machine) -> None:
    before = probe.serves(shared)
    took = [restart(shared) for _ in range(2)]
    assert min(took) <= LATER_BOOT, took
    assert probe.serves(shared) == before


@pytest.mark.parametrize(
    "command",
    ["infinity-set-hostname a.test", "infinity-set-hostname --auto", "infinity-set-hostname",
     "infinity-set-certificate --self-signed", "infinity-renew"],
)  # fmt: skip
def test_a_command_that_needs_no_model_is_short(fragile: Machine, command: str) -> None:
    """CPU of the command and of what it starts; it waits for little else."""
    timed = fragile.exec(f"TIMEFORMAT='%U %S'; time {command} >/dev/null")
    assert sum(map(float, timed.stderr.split())) <= COMMAND, timed.stderr
