"""Files change together or not at all, and nothing is left aside."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from appliance.activate import NewFile, activated
from appliance.errors import ApplianceError
from appliance.files import write_atomic
from appliance.gate import Gate
from appliance.paths import Paths

OWNER = (os.geteuid(), os.getegid())


class Judged(Gate):
    """A gate whose configuration passes, or does not, as the test says."""

    verdict: ApplianceError | None = None

    def test(self) -> None:
        if self.verdict:
            raise self.verdict


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judged:
    monkeypatch.setattr(Judged, "verdict", None)
    return Judged(Paths(tmp_path))


def new_files(folder: Path) -> list[NewFile]:
    (folder / "old").write_text("old")
    (folder / "old").chmod(0o640)
    return [
        NewFile(folder / "old", "changed", 0o600, OWNER),
        NewFile(folder / "made", "made", 0o600, OWNER),
    ]


def assert_as_before(folder: Path) -> None:
    assert (folder / "old").read_text() == "old"
    assert stat.S_IMODE((folder / "old").stat().st_mode) == 0o640
    assert [path.name for path in folder.iterdir()] == ["old"]


def test_new_files_stand_and_nothing_is_left_aside(gate: Judged, tmp_path: Path) -> None:
    with activated(new_files(tmp_path), gate):
        pass
    assert (tmp_path / "old").read_text() == "changed"
    assert (tmp_path / "made").read_text() == "made"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "old"]


def test_what_nginx_refuses_is_put_back(
    gate: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = new_files(tmp_path)
    monkeypatch.setattr(Judged, "verdict", ApplianceError("refused"))
    with pytest.raises(ApplianceError, match="refused"), activated(files, gate):
        pytest.fail("the body ran")
    assert_as_before(tmp_path)


def test_what_a_later_check_refuses_is_put_back(gate: Judged, tmp_path: Path) -> None:
    with pytest.raises(ApplianceError, match="open"), activated(new_files(tmp_path), gate):
        raise ApplianceError("open")
    assert_as_before(tmp_path)


def test_an_interruption_puts_back(gate: Judged, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), activated(new_files(tmp_path), gate):
        raise KeyboardInterrupt
    assert_as_before(tmp_path)


def test_a_file_that_cannot_be_written_puts_the_others_back(gate: Judged, tmp_path: Path) -> None:
    files = new_files(tmp_path)
    nowhere = NewFile(tmp_path / "no-such-folder/file", "", 0o600, OWNER)
    with pytest.raises(ApplianceError), activated([*files, nowhere], gate):
        pytest.fail("the body ran")
    assert_as_before(tmp_path)


def test_an_atomic_write_replaces_a_link_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("theirs")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_atomic(tmp_path / "link", "ours", 0o600)
    assert (tmp_path / "target").read_text() == "theirs"
    assert (tmp_path / "link").read_text() == "ours"
    assert not (tmp_path / "link").is_symlink()


def test_a_write_that_fails_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ApplianceError, match="No space left on device"):
        write_atomic(tmp_path / "file", "x", 0o600)
    assert not list(tmp_path.iterdir())


def test_a_failure_before_the_first_write_leaves_nothing_aside(
    gate: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = new_files(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fchmod", fail)
        with pytest.raises(ApplianceError, match="No space"), activated(files, gate):
            pytest.fail("the body ran")
    assert_as_before(tmp_path)


def test_a_file_that_cannot_be_kept_aside_stays_where_it_is(gate: Judged, tmp_path: Path) -> None:
    files = new_files(tmp_path)
    (tmp_path / "folder").mkdir()  # a folder has no second name
    with (
        pytest.raises(ApplianceError, match="could not be kept aside"),
        activated([*files, NewFile(tmp_path / "folder", "", 0o600, OWNER)], gate),
    ):
        pytest.fail("the body ran")
    (tmp_path / "folder").rmdir()
    assert_as_before(tmp_path)


@pytest.mark.parametrize("target", ["theirs", "no-such-file"])
def test_a_link_is_put_back_as_the_link_it_was(gate: Judged, tmp_path: Path, target: str) -> None:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "link").symlink_to(target)
    file = NewFile(tmp_path / "link", "ours", 0o600, OWNER)
    with pytest.raises(ApplianceError, match="open"), activated([file], gate):
        raise ApplianceError("open")
    assert os.readlink(tmp_path / "link") == target
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "theirs"]


def test_what_a_killed_run_kept_aside_is_not_what_is_put_back(gate: Judged, tmp_path: Path) -> None:
    files = new_files(tmp_path)
    (tmp_path / ".old.before").write_text("of a killed run")
    (tmp_path / ".made.before").write_text("of a killed run")
    with pytest.raises(ApplianceError, match="open"), activated(files, gate):
        raise ApplianceError("open")
    assert_as_before(tmp_path)
