"""The shared tail: one at a time, and what the live gate fails is taken back."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import bcrypt
import pytest

from appliance import apply, verify
from appliance.activate import NewFile, undo
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.paths import Paths
from appliance.settings import Settings

OWNER = (os.geteuid(), os.getegid())
SETTINGS = Settings(hostname="a.example", model="m", followed=True)


class Running(Gate):
    """A gate that is up and takes everything; it counts how often it was reloaded."""

    reloads = 0

    def test(self) -> None:
        pass

    def running(self) -> bool:
        return True

    def reload(self) -> None:
        type(self).reloads += 1


class Stopped(Running):
    def running(self) -> bool:
        return False


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    paths = Paths(tmp_path)
    paths.nginx.mkdir(parents=True)
    paths.state.mkdir(parents=True)
    paths.api_key_map.write_text("")
    paths.htpasswd.write_text("")
    paths.nginx_site.write_text("old")
    monkeypatch.setattr(Running, "reloads", 0)
    return paths


def refuse(_: verify.Target, hint: str) -> None:
    raise ApplianceError("The gate is open.", hint)


def new_site(paths: Paths) -> list[NewFile]:
    return [NewFile(paths.nginx_site, "new", 0o600, OWNER)]


def test_a_running_gate_that_fails_its_check_gets_the_old_files_back(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "require", refuse)
    with pytest.raises(ApplianceError, match=r"The gate is open\. Hint: The old files are back"):
        apply.apply(new_site(paths), SETTINGS, Running(paths))
    assert paths.nginx_site.read_text() == "old"
    assert Running.reloads == 2, "nginx goes on with the files that failed"


def test_a_running_gate_that_passes_keeps_the_new_files(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "require", lambda *_: None)
    apply.apply(new_site(paths), SETTINGS, Running(paths))
    assert paths.nginx_site.read_text() == "new"


def test_a_gate_that_is_down_is_not_probed(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "require", refuse)
    apply.apply(new_site(paths), SETTINGS, Stopped(paths))
    assert paths.nginx_site.read_text() == "new"
    assert Stopped.reloads == 0


class Broken(Running):
    """A gate that takes nothing: somebody else's slip is in its configuration."""

    def test(self) -> None:
        raise ApplianceError("refused")

    def reload(self) -> None:
        raise ApplianceError("nothing to reload")


def test_where_nothing_was_taken_nothing_is_reloaded(paths: Paths) -> None:
    with pytest.raises(ApplianceError, match="refused"):
        apply.apply(new_site(paths), SETTINGS, Broken(paths))
    assert paths.nginx_site.read_text() == "old"
    assert not paths.change.exists()


def test_a_way_back_that_nginx_does_not_take_is_gone_once(paths: Paths) -> None:
    listed = {"files": [[str(paths.nginx_site), False]], "server": ""}
    paths.change.write_text(json.dumps(listed))
    with pytest.raises(ApplianceError, match="nothing to reload"):
        undo(Broken(paths))
    assert not paths.nginx_site.exists()
    assert not undo(Broken(paths)), "it would be tried for ever"


def test_a_second_change_waits_for_the_first(tmp_path: Path) -> None:
    entered, order = threading.Event(), []

    def second() -> None:
        entered.set()
        with apply.locked(tmp_path / "lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    with apply.locked(tmp_path / "lock"):
        thread.start()
        entered.wait()
        thread.join(0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_change_that_does_not_end_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with (
        apply.locked(tmp_path / "lock"),
        pytest.raises(ApplianceError, match="under way") as caught,
        apply.locked(tmp_path / "lock", patience=0.2),
    ):
        pytest.fail("two changes at once")
    assert caught.value.hint


def test_a_change_that_was_killed_leaves_no_lock(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        with apply.locked(tmp_path / "lock"):
            os._exit(137)
    os.waitpid(child, 0)
    with apply.locked(tmp_path / "lock"):
        pass


def test_the_lock_is_for_root_alone_and_follows_no_link(tmp_path: Path) -> None:
    with apply.locked(tmp_path / "lock"):
        assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), apply.locked(tmp_path / "link"):
        pytest.fail("followed")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("login", [b"", b"other:x\n", b"admin:$apr1$x$y\n", b"admin:\n"])
def test_a_login_that_cannot_be_checked_leaves_the_password_unknown(
    paths: Paths, login: bytes
) -> None:
    paths.credentials.parent.mkdir()
    paths.credentials.write_text("INFINITY_PASSWORD=by hand\n")
    paths.htpasswd.write_bytes(login)
    assert apply.target(SETTINGS, paths).password is None


def test_odd_bytes_in_the_login_file_do_not_hide_the_login(paths: Paths) -> None:
    paths.credentials.parent.mkdir()
    paths.credentials.write_text("INFINITY_PASSWORD=by hand\n")
    hashed = bcrypt.hashpw(b"by hand", bcrypt.gensalt(5))
    paths.htpasswd.write_bytes(b"caf\xe9:x\nadmin:" + hashed + b"\n")
    assert apply.target(SETTINGS, paths).password == "by hand"
