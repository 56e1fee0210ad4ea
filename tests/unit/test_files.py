"""A file is the old one or the new one, whole, and never readable to others for an instant."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from appliance.files import remove, remove_temporaries, write_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_content_and_mode_are_as_said_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        write_atomic(tmp_path / "file", "ä", 0o644)
    finally:
        os.umask(old)
    assert (tmp_path / "file").read_bytes() == b"\xc3\xa4"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
    assert names(tmp_path) == ["file"]


def test_the_name_points_at_it_only_with_its_final_mode_and_whole_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    replace = os.replace

    def look(source: str, target: Path) -> None:
        status = os.stat(source)
        seen.append((stat.S_IMODE(status.st_mode), status.st_size, target.exists()))
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    write_atomic(tmp_path / "secret", b"12345", 0o600, (os.geteuid(), os.getegid()))
    assert seen == [(0o600, 5, False)]


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
def test_a_failure_at_any_step_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    (tmp_path / "file").write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(ApplianceError, match=r"file could not be written: No space") as caught:
            write_atomic(tmp_path / "file", "new", 0o600)
    assert caught.value.hint
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("blocked", ["missing/file", "folder"])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, blocked: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ApplianceError, match="could not be written"):
        write_atomic(tmp_path / blocked, "x", 0o600)
    assert names(tmp_path) == ["folder"]


def test_removing_is_for_what_is_there(tmp_path: Path) -> None:
    remove(tmp_path / "missing")
    remove(tmp_path / "no-folder/missing")
    (tmp_path / "nowhere").symlink_to(tmp_path / "no-such-file")
    remove(tmp_path / "nowhere")
    assert names(tmp_path) == []
    (tmp_path / "folder").mkdir()
    with pytest.raises(ApplianceError, match="could not be removed"):
        remove(tmp_path / "folder")


def test_what_killed_writes_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    others = [".file.bak", ".file.new", ".other.abc.new", "file", "file.abc.new"]
    for name in (".file.abc.new", ".file.d_f.new", *others):
        (tmp_path / name).write_text("")
    remove_temporaries(tmp_path / "file")
    assert names(tmp_path) == sorted(others)
