"""A power cut at every step of first boot: the next boot finishes, and nothing is made twice."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from firstboot_support import FIRST, HOST, OTHER_HOST, SECOND, Disk, metadata

from appliance import identity
from appliance.paths import Paths

FEWEST_EFFECTS = 10  # fewer would mean that the crashes miss the writes


def crashes(original: Path, tmp_path: Path, instance_id: str, host: str) -> list[Disk]:
    """A copy of the disk for every effect of the boot, each cut off before another one."""
    disks = []
    for effect in itertools.count():
        root = tmp_path / f"cut-{effect}"
        shutil.copytree(original, root)
        disk = Disk(Paths(root))
        if not disk.boot_and_crash(metadata(instance_id, host), effect):
            break
        disks.append(disk)
    assert len(disks) >= FEWEST_EFFECTS
    return disks


def test_a_cut_first_boot_is_finished_by_the_next(tmp_path: Path) -> None:
    Disk.fresh(tmp_path / "image")
    for disk in crashes(tmp_path / "image", tmp_path, FIRST, HOST):
        written = identity.load(disk.paths)
        if not written.api_key:
            assert not disk.paths.api_key_map.exists(), "a key is accepted that nobody was told"
            assert not disk.paths.htpasswd.exists()
        disk.boot()
        disk.assert_whole()
        assert not written.api_key or identity.load(disk.paths) == written


def test_a_cut_boot_of_a_copy_never_keeps_the_originals_secrets(tmp_path: Path) -> None:
    original = Disk.fresh(tmp_path / "image")
    original.boot()
    old = original.secrets()
    for disk in crashes(tmp_path / "image", tmp_path, SECOND, OTHER_HOST):
        disk.boot(metadata(SECOND, OTHER_HOST))
        disk.assert_whole(OTHER_HOST)
        assert all(new != before for new, before in zip(disk.secrets(), old, strict=True))
        assert disk.paths.machine_id.read_text() != original.paths.machine_id.read_text()


def test_a_cut_change_of_name_is_finished_with_the_same_secrets(tmp_path: Path) -> None:
    original = Disk.fresh(tmp_path / "image")
    original.boot()
    for disk in crashes(tmp_path / "image", tmp_path, FIRST, OTHER_HOST):
        assert disk.secrets() == original.secrets()
        disk.boot(metadata(FIRST, OTHER_HOST))
        disk.assert_whole(OTHER_HOST)
        assert disk.secrets() == original.secrets()
