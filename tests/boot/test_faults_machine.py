"""Processes die or hang, the disk fills, metadata flaps: the way back needs no person."""

from __future__ import annotations

import time

import faults
import probe
import pytest
from test_failures import UNIT, unborn

from machine.instance import Machine

pytestmark = [pytest.mark.boot, pytest.mark.timeout(4 * faults.NEVER)]

JOURNALD = (
    "systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket "
    "systemd-journald.service"
)
KILLED = {
    "a kill of the server": "systemctl kill --signal=KILL infinity.service",
    "a stop (SIGSTOP) of the server": "systemctl kill --signal=STOP infinity.service",
    "a kill of nginx's worker": "pkill -KILL --newest --full '[n]ginx: worker'",
    "a kill of all of nginx's workers": "pkill -KILL --full '[n]ginx: worker'",
    "a kill of nginx's master": "systemctl kill --signal=KILL --kill-who=main nginx.service",
    "a kill of all of nginx": "systemctl kill --signal=KILL nginx.service",
    "a kill of journald": "systemctl kill --signal=KILL systemd-journald.service",
}


@pytest.mark.parametrize("fault", KILLED)
def test_a_process_that_dies_or_hangs_is_replaced(fragile: Machine, fault: str) -> None:
    faults.up(fragile)
    pid = probe.show(fragile, "infinity.service", "MainPID")
    with faults.burglar(fragile):
        began = time.monotonic()
        fragile.exec(KILLED[fault])
        if "server" in fault:
            probe.eventually(
                lambda: probe.show(fragile, "infinity.service", "MainPID") not in {pid, "0"},
                "another server",
                faults.NEVER,
            )
        faults.back(fragile, fault, began)
    assert faults.healthy(fragile) == []


def test_a_server_out_of_memory_is_replaced(fragile: Machine) -> None:
    """By the kernel where the control group has memory, else because allocations fail."""
    faults.up(fragile)
    pid = probe.show(fragile, "infinity.service", "MainPID")
    controllers = fragile.exec(["cat", "/sys/fs/cgroup/cgroup.controllers"]).stdout.split()
    with faults.burglar(fragile):
        if "memory" in controllers:
            limit = ["MemoryMax=64M", "MemorySwapMax=0"]
            fragile.exec(["systemctl", "set-property", "--runtime", "infinity.service", *limit])
            probe.eventually(
                lambda: probe.show(fragile, "infinity.service", "MainPID") != pid, "its end"
            )
            fragile.exec("rm -rf /run/systemd/system.control/infinity.service.d")
            fragile.exec(["systemctl", "daemon-reload"])
        else:
            fragile.exec(["prlimit", f"--pid={pid}", "--as=1048576", f"--data={1048576}"])
            over(fragile)
        faults.back(fragile, "a server without memory")


def over(machine: Machine) -> None:
    """Ask for more memory than there is."""
    mine = probe.credentials(machine)
    body = {"model": mine.model, "input": ["word " * 400] * 256}
    answer = probe.request(machine, "/embeddings", headers=mine.bearer, body=body, timeout=120)
    assert answer.status_code in {200, 500, 502, 503}, answer.text


def test_everything_starts_and_is_told_without_journald(fragile: Machine) -> None:
    faults.up(fragile)
    fragile.exec(f"systemctl mask --runtime {JOURNALD}; systemctl stop {JOURNALD}", check=False)
    try:
        assert probe.state(fragile, "systemd-journald.service") != "active"
        with faults.burglar(fragile):
            fragile.exec(["systemctl", "restart", UNIT, "nginx", "infinity"], timeout=240)
            faults.back(fragile, "the loss of journald")
        assert faults.healthy(fragile) == []
    finally:
        fragile.exec(f"systemctl unmask --runtime {JOURNALD}; systemctl start {JOURNALD}")


@pytest.mark.parametrize(
    "fault", ["hang", "error", "garbage", "absent"] if faults.thorough() else ["absent"]
)
def test_first_boot_finishes_when_metadata_comes_at_last(fragile: Machine, fault: str) -> None:
    unborn(fragile)
    fragile.metadata["fault"] = fault
    with faults.burglar(fragile, str(fragile.metadata["public-hostname"])):
        fragile.exec(["systemctl", "restart", UNIT], check=False, timeout=90)
        assert probe.state(fragile, UNIT) == "failed"
        assert not probe.open_port(fragile, 443)
        fragile.metadata.pop("fault", None)
        faults.back(fragile, f"metadata that was {fault}")
    assert probe.credentials(fragile).host == fragile.metadata["public-hostname"]


def test_metadata_that_flaps_ends_with_one_identity(fragile: Machine) -> None:
    unborn(fragile)
    name = str(fragile.metadata["public-hostname"])
    with faults.burglar(fragile, name):
        fragile.exec(["systemctl", "restart", "--no-block", UNIT])
        for fault in ("error", None, "hang", None, "garbage", None, "unauthorized") * 2:
            if fault:
                fragile.metadata["fault"] = fault
            else:
                fragile.metadata.pop("fault", None)
            time.sleep(0.15)  # flapping takes time
        fragile.metadata.pop("fault", None)
        faults.back(fragile, "metadata that flapped")
    assert probe.credentials(fragile).host == name
