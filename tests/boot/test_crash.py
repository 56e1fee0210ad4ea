"""Killed at a random moment, first boot leaves nothing half-true, and the next start finishes."""

from __future__ import annotations

import random
import time

import probe
import pytest
from test_failures import UNIT, finishes, unborn

from machine.instance import Machine

pytestmark = pytest.mark.boot

ROUNDS = 8


def written(machine: Machine) -> str:
    return machine.exec(["cat", str(probe.PATHS.credentials)], check=False).stdout


def duration(machine: Machine) -> float:
    """Seconds that an undisturbed first boot takes here and now."""
    unborn(machine)
    began = time.monotonic()
    machine.exec(["systemctl", "restart", UNIT])
    return time.monotonic() - began


def test_kill_at_any_moment_never_makes_the_credentials_file_lie(fragile: Machine) -> None:
    whole = duration(fragile)
    moments = random.Random()  # noqa: S311 - moments, no secrets
    killed = 0
    for _ in range(ROUNDS):
        unborn(fragile)
        fragile.exec(["systemctl", "restart", "--no-block", UNIT])
        time.sleep(moments.uniform(0, whole))
        fragile.exec(["systemctl", "kill", "--signal=KILL", UNIT], check=False)
        probe.eventually(lambda: probe.state(fragile, UNIT) != "activating", "the end", 30)
        killed += probe.state(fragile, UNIT) == "failed"
        left = written(fragile)
        finishes(fragile)
        assert left in {"", written(fragile)}, "credentials once written down must not change"
    assert killed > 0, "no round caught it at work"


def test_power_cut_during_first_boot_is_finished_by_the_next_boot(fragile: Machine) -> None:
    whole, before = duration(fragile), probe.secrets(fragile)
    fragile.metadata["instance-id"] = "i-0cut"
    fragile.exec(["systemctl", "restart", "--no-block", UNIT])
    time.sleep(random.Random().uniform(0, whole))  # noqa: S311 - a moment, no secret
    fragile.stop(power_cut=True)
    fragile.start(wait=False)
    probe.gate_up(fragile)
    assert probe.serves(fragile).host == fragile.metadata["public-hostname"]
    after = probe.secrets(fragile)
    assert [name for name in after if after[name] == before[name]] == []
