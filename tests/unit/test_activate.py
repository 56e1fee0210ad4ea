"""Files change together or not at all, and nothing is left aside."""

from __future__ import annotations

import itertools
import os
import stat
from pathlib import Path

import pytest
from firstboot_support import CRASHED, die_before

from appliance.activate import NewFile, activated, undo
from appliance.errors import ApplianceError
from appliance.files import write_atomic
from appliance.gate import Gate
from appliance.paths import Paths

# Changes of the disk until the one that makes the change stand: two tries each of removing what an
# earlier run kept aside and of linking, the list, the two files.
BEFORE_COMMIT = 7
OWNER = (os.geteuid(), os.getegid())


class Judged(Gate):
    """A gate whose configuration passes, or does not, as the test says."""

    verdict: ApplianceError | None = None

    def test(self) -> None:
        if self.verdict:
            raise self.verdict


@pytest.fixture
def gate(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Judged:
    monkeypatch.setattr(Judged, "verdict", None)
    paths = Paths(tmp_path_factory.mktemp("root"))
    paths.state.mkdir(parents=True)
    return Judged(paths)


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


def test_a_file_without_data_goes_and_comes_back(gate: Judged, tmp_path: Path) -> None:
    files = [*new_files(tmp_path)[:1], NewFile(tmp_path / "gone", None, 0, OWNER)]
    (tmp_path / "gone").write_text("here")
    with pytest.raises(ApplianceError, match="gone"), activated(files, gate):
        raise ApplianceError("open" if (tmp_path / "gone").exists() else "gone")
    assert (tmp_path / "gone").read_text() == "here"
    with activated(files, gate):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def killed(gate: Judged, files: list[NewFile], effect: int) -> bool:
    """Activate in a child that dies before its given change of the disk; whether it died."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            die_before(effect)
            with activated(files, gate):
                pass
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CRASHED


def test_what_was_cut_off_anywhere_is_undone_or_stands_as_a_whole(
    gate: Judged, tmp_path: Path
) -> None:
    whole = {"old": "changed", "made": "made"}
    seen = []
    for effect in itertools.count():
        folder = tmp_path / f"cut-{effect}"
        folder.mkdir()
        died = killed(gate, new_files(folder), effect)
        undo(gate)
        left = {path.name: path.read_text() for path in folder.iterdir()}
        assert left in ({"old": "old"}, whole), "half a change, or old files left aside"
        assert not any(gate.paths.state.iterdir()), "a list is left"
        seen.append(left == whole)
        if not died:
            break
    assert seen == sorted(seen), "a change that stood once must stand from then on"
    assert seen.count(False) > 3, "the cuts miss the writes"


def test_undoing_can_be_cut_off_and_repeated(gate: Judged, tmp_path: Path) -> None:
    for effect in itertools.count():
        folder = tmp_path / f"cut-{effect}"
        folder.mkdir()
        assert killed(gate, new_files(folder), BEFORE_COMMIT)
        child = os.fork()
        if child == 0:
            die_before(effect)
            undo(gate)
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CRASHED
        undo(gate)
        assert_as_before(folder)
        if not died:
            break
    assert effect > 1, "the cuts miss the way back"
