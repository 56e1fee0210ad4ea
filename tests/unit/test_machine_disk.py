"""The disk's layout, the computer it boots in, and what the audit makes of the figures."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from appliance.run import Completed
from audit.row import Row, Verdict
from audit.rows import disk as figures
from machine import disk, names, qemu, steps
from machine.build import PYTHONS, Image
from machine.instance import Machine


def test_partitions_fit_and_leave_room_for_both_tables() -> None:
    assert disk.ESP_START == disk.MIB
    assert disk.ESP_START + disk.ESP_SIZE == disk.ROOT_START
    assert disk.ROOT_START + disk.ROOT_SIZE <= disk.SIZE - disk.MIB
    assert disk.ROOT_SIZE % 4096 == 0


def test_the_loader_looks_for_the_label_that_the_disk_has() -> None:
    script = steps.KERNEL.read_text()
    assert f"--label {disk.ROOT_LABEL} " in script
    assert f"root=LABEL={disk.ROOT_LABEL} " in script
    assert f"LABEL={disk.ROOT_LABEL} / ext4" in script


def test_every_release_has_a_kernel() -> None:
    assert steps.KERNELS.keys() == PYTHONS.keys()


def test_the_computer_is_an_ec2_instance_to_cloud_init() -> None:
    words = qemu.identity("i-0123456789abcdef0")
    (system,) = (word for word in words if word.startswith("type=1,"))
    told = dict(pair.split("=") for pair in system.split(","))
    assert told["uuid"] == told["serial"] == str(uuid.UUID(told["uuid"]))
    assert told["uuid"].startswith("ec2")
    assert "type=2,manufacturer=Amazon EC2,asset=i-0123456789abcdef0" in words


def test_the_disk_boots_by_itself_and_only_its_own_address_is_taken() -> None:
    place = names.place("web")
    argv = qemu.boot_argv(place, Path("disk.raw"), 7, qemu.TCG)
    assert "-kernel" not in argv
    assert argv[argv.index("exec") + 1] == place.inside
    (network,) = (word for word in argv if word.startswith("user,"))
    assert network.count("hostfwd=tcp:10.213.7.2:") == len(qemu.PORTS) == network.count("hostfwd")


@pytest.fixture
def image(tmp_path: Path) -> Image:
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/vmlinuz-6").touch()
    return Image((tmp_path,), "key", "bookworm", "model")


@pytest.mark.parametrize(
    ("said", "chosen"), [("Kernel panic - not syncing", qemu.KVM), ("", qemu.TCG)]
)
def test_kvm_is_taken_only_if_a_kernel_runs_in_it(
    image: Image, monkeypatch: pytest.MonkeyPatch, said: str, chosen: tuple[str, ...]
) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.setattr(qemu, "run", lambda *_, **__: Completed(0, said, ""))
    assert qemu.accelerator(image) == chosen


def test_kvm_in_which_a_kernel_hangs_is_not_taken(
    image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(*_: object, **__: object) -> Completed:
        raise ApplianceError("did not finish")

    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.setattr(qemu, "run", hangs)
    assert qemu.accelerator(image) == qemu.TCG


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "build/disk.json"
    monkeypatch.setattr(figures, "FIGURES", file)
    return file


def rows() -> dict[str, Row]:
    found = figures.rows(Machine(names.place("none")))
    return dict(zip(figures.CONTROLS, found, strict=True))


def test_what_no_disk_has_shown_is_untested_and_says_how_to_test_it(told: Path) -> None:
    assert not told.exists()
    assert {row.verdict for row in rows().values()} == {Verdict.UNTESTED}
    assert all("make test-disk" in row.measured for row in rows().values())


def test_what_a_disk_has_shown_is_a_row_and_an_older_commit_is_named(told: Path) -> None:
    figures.note("sysctl", "40 of 40", passed=True)
    figures.note("memory", "not killed", passed=False)
    found = rows()
    assert (found["sysctl"].measured, found["sysctl"].verdict) == ("40 of 40", Verdict.PASSED)
    assert found["memory"].verdict is Verdict.FAILED
    assert found["audit"].verdict is Verdict.UNTESTED
    told.write_text(json.dumps(json.loads(told.read_text()) | {"commit": "0123456789ab"}))
    assert rows()["sysctl"].measured == "40 of 40 (at 012345678)"


def test_a_new_run_forgets_the_old_figures(told: Path) -> None:
    figures.note("sysctl", "40 of 40", passed=True)
    figures.forget()
    assert not told.exists()
