from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from machine import cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INFINITY_APPLIANCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(cache.TEMPORARY)]


def test_parts_of_a_key_do_not_run_together() -> None:
    assert cache.key("ab", "c") != cache.key("a", "bc")
    assert cache.key("ab") != cache.key("ab", "")


def test_the_digest_sees_content_names_new_files_and_the_executable_bit(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    file = folder / "a.py"
    file.write_text("1")
    seen = [cache.digest_files(folder)]
    file.write_text("2")
    seen.append(cache.digest_files(folder))
    file.chmod(0o755)
    seen.append(cache.digest_files(folder))
    file.rename(folder / "b.py")
    seen.append(cache.digest_files(folder))
    (folder / "c.py").touch()
    seen.append(cache.digest_files(folder))
    assert len(set(seen)) == len(seen)


def test_the_digest_does_not_see_byte_code_or_where_the_checkout_is(tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place / "code").mkdir(parents=True)
        (tmp_path / place / "code/a.py").write_text("1")
    (tmp_path / "two/code/__pycache__").mkdir()
    (tmp_path / "two/code/__pycache__/a.pyc").touch()
    assert cache.digest_files(tmp_path / "one/code") == cache.digest_files(tmp_path / "two/code")


def test_an_entry_is_made_once(tmp_path: Path) -> None:
    made = []

    def make(into: Path) -> None:
        made.append(into)
        (into / "file").touch()

    for _ in range(2):
        assert (cache.make_once(tmp_path / "entry", make, "entry") / "file").exists()
    assert len(made) == 1


@pytest.mark.parametrize("error", [ApplianceError("a step failed"), KeyboardInterrupt()])
def test_an_interrupted_entry_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def fail(into: Path) -> None:
        (into / "half").touch()
        raise error

    with pytest.raises(type(error)):
        cache.make_once(tmp_path / "entry", fail, "entry")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / f"{cache.TEMPORARY}dead/root").mkdir(parents=True)
    cache.make_once(tmp_path / "entry", lambda _: None, "entry")
    assert leftovers(tmp_path) == []


def test_nothing_is_deleted_through_a_mount() -> None:
    with pytest.raises(ApplianceError, match=r"/proc.* is mounted"):
        cache.remove(Path("/proc"))


def test_a_cache_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("INFINITY_APPLIANCE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ApplianceError, match="cannot be made") as caught:
        cache.folder("layers")
    assert "INFINITY_APPLIANCE_CACHE" in caught.value.hint


def test_a_second_build_waits_for_the_first_and_says_so() -> None:
    code = "from machine import cache\nwith cache.lock('build'): print('second', flush=True)"
    with cache.lock("build"):
        second = subprocess.Popen(
            [sys.executable, "-c", code], cwd=cache.REPO, stdout=subprocess.PIPE, text=True
        )
        assert second.stdout is not None
        assert second.stdout.readline().startswith("Waiting for another process")
        assert second.poll() is None
    said, _ = second.communicate(timeout=30)
    assert (said, second.returncode) == ("second\n", 0)
