"""The power is cut at random moments: of first boot, of commands, under load."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import faults
import httpx
import probe
import pytest
from test_cmd_upgrade import INSTALL, NEXT, bring_wheel, version
from test_failures import UNIT

from appliance.errors import ApplianceError
from machine.instance import Machine

pytestmark = pytest.mark.boot

ROUNDS = faults.rounds(3)
HUB = "/var/lib/infinity/hf/hub"
TWIN, PARCEL = "made/twin", "made/parcel"  # the same model under other names
# Every command that changes something, and how many seconds a cut may come after its start.
COMMANDS = {
    "infinity-api-key rotate unnamed": 2,
    "infinity-set-password --generate": 2,
    "infinity-set-hostname embeddings.example.com alias.example.com": 2,
    "infinity-set-hostname --auto": 2,
    "infinity-api-key add ci; infinity-api-key rotate ci --grace 1s; infinity-api-key revoke ci": 3,
    "infinity-set-certificate --self-signed; infinity-renew": 3,
    f"infinity-set-model --offline {TWIN}; infinity-set-model --offline $MODEL": 30,
    f"rm -f /root/made.tar; infinity-model export /root/made.tar {PARCEL}; "
    f"rm -r {HUB}/models--made--parcel; infinity-model import /root/made.tar": 4,
    f"infinity-upgrade {NEXT} {INSTALL}; infinity-upgrade --rollback": 60,
}
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
    command, within = list(COMMANDS.items())[(number // len(CUTS)) % len(COMMANDS)]
    script = f"MODEL=$(cat /root/model); {command}"
    argv = ["systemd-run", "--quiet", "--no-block", "--", "bash", "-c", script]
    machine.exec(argv)
    return cut_and_start(machine, within)


@contextmanager
def changeable(machine: Machine) -> Iterator[None]:
    """Other models and another version to change to; afterwards it serves what it did."""
    if not faults.thorough():  # only then are these commands run
        yield
        return
    model = probe.credentials(machine).model
    for made in ("twin", "parcel"):
        original = f"{HUB}/models--{model.replace('/', '--')}"
        machine.exec(["cp", "-a", original, f"{HUB}/models--made--{made}"])
    bring_wheel(machine)
    machine.exec(f"echo {model} >/root/model")
    yield
    if probe.credentials(machine).model != model:
        machine.exec(["infinity-set-model", "--offline", model], timeout=300)
    if version(machine) == NEXT:
        machine.exec(["infinity-upgrade", "--rollback"], timeout=300)
    machine.exec(f"rm -rf {HUB}/models--made--* /root/made.tar /root/wheels /root/model")


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
    with changeable(fragile):
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
