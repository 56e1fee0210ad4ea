"""The whole disk is full, or has no inode left: running, over a boot, and in a first boot."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import faults
import probe
import pytest
from test_failures import UNIT, unborn

from appliance.run import run
from machine.instance import Machine

pytestmark = [pytest.mark.boot, pytest.mark.timeout(6 * faults.NEVER)]

KINDS = ["bytes", "inodes"]
MIB = 1024**2
SIZE = 512 * MIB
# cloud-init cannot write its own state then, and nothing waits for that.
OURS = {"infinity-firstboot.service", "infinity.service", "nginx.service", "ssh.service"}


@dataclass(frozen=True)
class Disk:
    """A file system of its own below what a machine writes; full at one's word."""

    mounted: Path
    kind: str

    def fill(self) -> None:
        """To the last block, or the last inode."""
        used = os.statvfs(self.mounted)
        if self.kind == "bytes":
            self._mount(f"size={(used.f_blocks - used.f_bfree) * used.f_frsize}")
        else:
            self._mount(f"nr_inodes={used.f_files - used.f_ffree}")

    def free(self) -> None:
        self._mount(f"size={SIZE},nr_inodes=100000")

    def _mount(self, option: str) -> None:
        run(["mount", "-o", f"remount,{option}", self.mounted])


@contextmanager
def own_disk(machine: Machine, kind: str) -> Iterator[Disk]:
    """Have the machine write to a small disk; what it wrote is copied there, and back again.

    The machine is stopped for that on both ways, and runs in the body.
    """
    place = machine.place
    mounted = place.folder / "small"
    machine.stop()
    mounted.mkdir()
    run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},nr_inodes=100000,mode=755", "small", mounted])
    try:
        move(place.folder, mounted)
        machine.start(wait=False)
        yield Disk(mounted, kind)
    finally:
        machine.stop(power_cut=True)
        for name in ("upper", "work"):
            (place.folder / name).unlink(missing_ok=True)
        move(mounted, place.folder)
        run(["umount", mounted])
        mounted.rmdir()
        machine.start(wait=False)


def move(source: Path, target: Path) -> None:
    """The overlay's upper layer; links in its old place where it is to be used from elsewhere."""
    run(["cp", "--archive", source / "upper", target / "upper"], timeout=None)
    (target / "work").mkdir()
    for name in ("upper", "work"):
        shutil.rmtree(source / name)
        if target.parent == source:
            (source / name).symlink_to(target / name)


def failed(machine: Machine) -> list[str]:
    lines = machine.exec(["systemctl", "--failed", "--plain", "--no-legend"]).stdout.splitlines()
    return [line.split()[0] for line in lines if line]


@pytest.mark.parametrize("kind", KINDS if faults.thorough() else KINDS[:1])
def test_a_full_disk_stops_no_service_and_no_boot_and_loses_nothing(
    fragile: Machine, kind: str
) -> None:
    with own_disk(fragile, kind) as disk:
        faults.up(fragile)
        before = probe.secrets(fragile)
        with faults.burglar(fragile):
            disk.fill()
            refused = fragile.exec(["infinity-api-key", "rotate", "unnamed"], check=False)
            assert refused.returncode == 1, "there is no room for a change"
            assert "Nothing was changed" in refused.stderr
            assert faults.answers(fragile)
            assert any("/ " in what for what in faults.healthy(fragile)), "the status must say so"
            fragile.reboot(wait=False)
            probe.settled(fragile)
            assert not [unit for unit in failed(fragile) if unit in OURS]
            disk.free()
            faults.back(fragile, f"a boot from a disk without {kind}")
        assert probe.secrets(fragile) == before
        assert faults.healthy(fragile) == []


@pytest.mark.parametrize("kind", KINDS if faults.thorough() else KINDS[1:])
def test_a_first_boot_on_a_full_disk_finishes_when_there_is_room(
    fragile: Machine, kind: str
) -> None:
    with own_disk(fragile, kind) as disk:
        faults.up(fragile)
        unborn(fragile)
        disk.fill()
        with faults.burglar(fragile, str(fragile.metadata["public-hostname"])):
            fragile.exec(["systemctl", "restart", UNIT], check=False)
            assert probe.state(fragile, UNIT) == "failed"
            assert not probe.open_port(fragile, 443)
            disk.free()
            faults.back(fragile, f"a first boot on a disk without {kind}")
        assert faults.healthy(fragile) == []
