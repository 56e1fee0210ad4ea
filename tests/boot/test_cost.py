"""What first boot and the commands cost, in CPU time as the kernel accounts it.

The product's own bounds are 1.5 s for a first boot, 0.3 s for one with nothing to do, 1 s for a
command, on a CPU of its own. A shared one makes the same instructions slower by half from one
minute to the next, so that they are held here as multiples of what a process takes beside them
that does nothing but load what each of these needs of Python (0.06 s alone).
"""

from __future__ import annotations

from collections.abc import Callable

import probe
import pytest
from test_failures import UNIT, unborn

from machine.instance import Machine

pytestmark = pytest.mark.boot

FIRST_BOOT = 25
LATER_BOOT = 5
COMMAND = 16

TRIES = 4
NEEDED = '/opt/infinity/appliance/venv/bin/python -I -c "import http.client, json, subprocess"'


def of_unit(machine: Machine) -> float:
    """Seconds of CPU of one run of first boot, and of all that it starts."""
    machine.exec(["systemctl", "restart", UNIT, "nginx.service"])
    return int(probe.show(machine, UNIT, "CPUUsageNSec")) / 1e9


def of_command(machine: Machine, command: str) -> float:
    """Seconds of CPU of a command, and of what it starts and waits for."""
    timed = machine.exec(f"TIMEFORMAT='%U %S'; time {command} >/dev/null")
    return sum(map(float, timed.stderr.split()))


def cost(machine: Machine, measure: Callable[[], float]) -> float:
    """The least of what is measured, as a multiple of the least that Python takes beside it."""
    pairs = [(of_command(machine, NEEDED), measure()) for _ in range(TRIES)]
    needed, taken = (min(times) for times in zip(*pairs, strict=True))
    return float(taken / needed)


def test_first_boot_is_short(fragile: Machine) -> None:
    def first() -> float:
        unborn(fragile)
        return of_unit(fragile)

    assert cost(fragile, first) <= FIRST_BOOT


def test_boot_with_nothing_to_do_is_shorter(shared: Machine) -> None:
    before = probe.serves(shared)
    assert cost(shared, lambda: of_unit(shared)) <= LATER_BOOT
    assert probe.serves(shared) == before


@pytest.mark.parametrize(
    "command",
    ["infinity-set-hostname a.test", "infinity-set-hostname --auto", "infinity-set-hostname",
     "infinity-set-certificate --self-signed", "infinity-renew"],
)  # fmt: skip
def test_a_command_that_needs_no_model_is_short(fragile: Machine, command: str) -> None:
    assert cost(fragile, lambda: of_command(fragile, command)) <= COMMAND
