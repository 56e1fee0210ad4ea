"""The power is cut at random moments: of first boot, of commands, under load."""

from __future__ import annotations

import random
import threading
import time

import faults
import httpx
import probe
import pytest
from test_failures import UNIT

from appliance.errors import ApplianceError
from machine.instance import Machine

pytestmark = pytest.mark.boot

ROUNDS = faults.rounds(3)
COMMANDS = (
    "infinity-api-key rotate unnamed",
    "infinity-set-password --generate",
    "infinity-set-hostname embeddings.example.com alias.example.com",
    "infinity-set-hostname --auto",
    "infinity-api-key add ci; infinity-api-key revoke ci",
)
MOMENTS = random.Random()  # noqa: S311 - moments, no secrets


def cut_and_start(machine: Machine, within: float) -> float:
    """Cut the power at a moment within so many seconds; returns when it is on again."""
    time.sleep(MOMENTS.uniform(0, within))
    machine.stop(power_cut=True)
    began = time.monotonic()
    machine.start(wait=False)
    return began


def during_first_boot(machine: Machine, number: int) -> float:
    """As another instance, so that everything is made anew, from the boot's first moment on."""
    machine.stop(power_cut=True)
    machine.metadata["instance-id"] = f"i-0cut{number:x}"
    machine.start(wait=False)
    return cut_and_start(machine, 6)


def during_a_command(machine: Machine, number: int) -> float:
    command = COMMANDS[(number // 3) % len(COMMANDS)]
    argv = ["systemd-run", "--quiet", "--no-block", "--", "bash", "-c", command]
    machine.exec(argv)
    return cut_and_start(machine, 2)


def under_load(machine: Machine, _number: int) -> float:
    mine, over = probe.credentials(machine), threading.Event()
    body = {"model": mine.model, "input": ["a text of some length " * 20] * 32}

    def call() -> None:
        while not over.is_set():
            try:
                probe.request(machine, "/embeddings", headers=mine.bearer, body=body, timeout=5)
            except (httpx.HTTPError, ApplianceError, OSError, AssertionError):
                over.wait(0.2)

    clients = [threading.Thread(target=call) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        return cut_and_start(machine, 2)
    finally:
        over.set()
        for client in clients:
            client.join()


CUTS = {"first boot": during_first_boot, "a command": during_a_command, "load": under_load}


@pytest.mark.timeout(ROUNDS * 2 * faults.NEVER)
def test_a_power_cut_at_any_moment_opens_nothing_and_loses_nothing(fragile: Machine) -> None:
    faults.up(fragile)
    for number in range(ROUNDS):
        name = list(CUTS)[number % len(CUTS)]
        with faults.burglar(fragile):
            began = CUTS[name](fragile, number)
            faults.back(fragile, f"a power cut during {name}", began)
        assert probe.state(fragile, UNIT) == "active"
        left = fragile.exec("find /etc /root -name '.*.before' -o -name '.*.new'").stdout
        assert left == "", "a killed change left secrets lying about"
        hanging = fragile.exec(["test", "-e", str(probe.PATHS.change)], check=False)
        assert hanging.returncode == 1, "a change was left half done"
    fragile.exec("infinity-set-hostname --auto; infinity-api-key revoke ci", check=False)
