"""Processes die or hang, the disk fills, metadata flaps: the way back needs no person."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import faults
import httpx
import probe
import pytest
from test_failures import UNIT, unborn

from machine.instance import Machine

pytestmark = [pytest.mark.boot, pytest.mark.timeout(4 * faults.NEVER)]

MIB = 1024**2
FIRST_VERSION = Path("/sys/fs/cgroup/memory")  # of control groups, where it holds memory
JOURNALD = (
    "systemd-journald.socket systemd-journald-dev-log.socket systemd-journald-audit.socket "
    "systemd-journald.service"
)
# Of the metadata service: silent, failing, wrong, shut, gone.
FAULTS = ["hang", "error", "garbage", "unauthorized", "absent"]
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


def test_a_server_whose_allocations_fail_for_a_while_serves_afterwards(fragile: Machine) -> None:
    faults.up(fragile)
    pid = probe.show(fragile, "infinity.service", "MainPID")
    with faults.burglar(fragile):
        fragile.exec(["prlimit", f"--pid={pid}", f"--as={MIB}", f"--data={MIB}"])
        over(fragile, 64)
        began = time.monotonic()
        fragile.exec(["prlimit", f"--pid={pid}", "--as=unlimited", "--data=unlimited"], check=False)
        faults.back(fragile, "a server whose allocations failed", began)
        probe.eventually(lambda: over(fragile, 64) == 200, "an answer to as much", faults.NEVER)
    assert faults.healthy(fragile) == []


def test_a_server_that_the_kernel_kills_for_its_memory_is_replaced(fragile: Machine) -> None:
    faults.up(fragile)
    pid = probe.show(fragile, "infinity.service", "MainPID")
    with faults.burglar(fragile):
        with too_little(fragile, pid) as kernel:
            over(fragile, 1000)
            probe.eventually(
                lambda: probe.show(fragile, "infinity.service", "MainPID") != pid,
                "its end",
                faults.NEVER,
            )
        faults.back(fragile, f"a server that {kernel} killed for its memory")


@contextmanager
def too_little(machine: Machine, pid: str) -> Iterator[str]:
    """Have the kernel allow a server hardly any more memory; yields who kills it for more.

    By the unit's own limit where the machine's control groups have memory. Where the host's first
    version has it, by a group of the host's. Where neither has it, by the signal alone.
    """
    controllers = machine.exec(["cat", "/sys/fs/cgroup/cgroup.controllers"]).stdout.split()
    if "memory" in controllers:
        limit = ["MemoryMax=64M", "MemorySwapMax=0"]
        machine.exec(["systemctl", "set-property", "--runtime", "infinity.service", *limit])
        try:
            yield "the kernel"
        finally:
            machine.exec("rm -rf /run/systemd/system.control/infinity.service.d")
            machine.exec(["systemctl", "daemon-reload"])
    elif (FIRST_VERSION / "memory.limit_in_bytes").exists():
        group = FIRST_VERSION / f"oom-{machine.place.full}"
        group.mkdir(exist_ok=True)
        try:
            (group / "memory.limit_in_bytes").write_text(str(4 * MIB))
            (group / "cgroup.procs").write_text(str(on_host(machine, pid)))
            yield "the kernel"
            assert "oom_kill 0" not in (group / "memory.oom_control").read_text().splitlines()
        finally:
            group.rmdir()
    else:
        machine.exec(["kill", "-KILL", pid])
        yield "a signal as the kernel's"


def on_host(machine: Machine, pid: str) -> int:
    """The number that a process of the machine has outside."""
    space = (Path("/proc") / str(machine.leader()) / "ns/pid").readlink()
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            (numbers,) = re.findall(r"^NSpid:(.*)", status.read_text(), re.MULTILINE)
            if numbers.split()[-1] == pid and (status.parent / "ns/pid").readlink() == space:
                return int(status.parent.name)
    raise AssertionError(f"process {pid} of the machine is not to be found")


def over(machine: Machine, texts: int) -> int:
    """Ask for what takes memory; the status of the answer, 0 when none came."""
    mine = probe.credentials(machine)
    body = {"model": mine.model, "input": ["word " * 200] * texts}
    try:
        answer = probe.request(machine, "/embeddings", headers=mine.bearer, body=body, timeout=120)
    except httpx.HTTPError:  # it ended in the middle
        return 0
    return answer.status_code


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


@pytest.mark.parametrize("fault", FAULTS if faults.thorough() else ["absent"])
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


def test_first_boot_finishes_while_metadata_is_slow(fragile: Machine) -> None:
    unborn(fragile)
    fragile.metadata["fault"] = "slow"
    with faults.burglar(fragile, str(fragile.metadata["public-hostname"])):
        began = time.monotonic()
        fragile.exec(["systemctl", "restart", "--no-block", UNIT])
        faults.back(fragile, "metadata that is slow", began)
        assert fragile.metadata.pop("fault") == "slow", "it was so all the time"
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
