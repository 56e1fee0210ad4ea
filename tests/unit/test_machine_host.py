"""Judging the host, its control groups and its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from machine import cgroups, checks, group, host, local_root, nspawn, pids
from machine.names import place

ALL = "CapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\n"


def test_effective_capabilities_are_read_from_their_own_line() -> None:
    assert host.effective_capabilities(ALL) == (1 << 41) - 1


def test_a_missing_capability_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    without = ALL.replace("CapEff:\t000001ffffffffff", "CapEff:\t000001ffffdfffff")
    monkeypatch.setattr(Path, "read_text", lambda _: without)
    with pytest.raises(ApplianceError, match="no CAP_SYS_ADMIN, as in a container"):
        host._check_capabilities()


def test_no_root_is_the_first_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert host.why_no_machine() == "booting one needs root"


def test_root_of_a_user_namespace_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Path, "read_text", lambda _: "         0       1000          1\n")
    assert "user namespace" in host.why_no_machine()


def test_missing_packages_are_each_named_once() -> None:
    tools = {"no-such-tool": "pack", "nor-this-one": "pack", "sh": "dash"}
    assert host.missing(tools) == ["pack"]


def test_who_may_not_install_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ApplianceError) as caught:
        host.install({"no-such-tool": "pack"})
    assert caught.value.hint == "As root: apt-get install pack"


def _files(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / "cgroup.procs").touch()
    return root


def test_cgroup_version_2_alone_is_one_hierarchy(tmp_path: Path) -> None:
    assert cgroups.hierarchies(_files(tmp_path, ".")) == (tmp_path,)


def test_hybrid_needs_both_hierarchies(tmp_path: Path) -> None:
    assert cgroups.hierarchies(_files(tmp_path, "unified", "systemd")) == (
        tmp_path / "unified",
        tmp_path / "systemd",
    )


@pytest.mark.parametrize("present", [[], ["unified"], ["memory", "systemd"]])
def test_other_trees_are_no_place_for_a_machine(tmp_path: Path, present: list[str]) -> None:
    assert cgroups.hierarchies(_files(tmp_path, *present)) == ()


def test_only_offered_controllers_are_handed_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset memory io\n")
    (tmp_path / "cgroup.subtree_control").touch()
    written: list[str] = []
    monkeypatch.setattr(Path, "write_text", lambda _, text: written.append(text))
    cgroups._hand_down(tmp_path)
    assert written == ["+memory"]


def test_exec_keeps_dollars_from_systemd() -> None:
    argv = nspawn.exec_argv(7, ["echo", "$HOME", "$$"], user="root", unit="u", terminal=None)
    assert argv[argv.index("--pipe") :] == ["--pipe", "--", "echo", "$$HOME", "$$$$"]


def test_exec_takes_a_terminal_only_when_there_is_one() -> None:
    argv = nspawn.exec_argv(7, ["sh"], user="root", unit="u", terminal="xterm")
    assert "--pty" in argv
    assert "--setenv=TERM=xterm" in argv
    assert "--pipe" not in argv


def test_a_host_with_systemd_boots_in_a_delegated_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = place("web", Path("/srv/a"), tmp_path)
    monkeypatch.setattr(cgroups, "managed_by_systemd", lambda: True)
    assert "--property=Delegate=yes" in nspawn.boot_argv(web)
    monkeypatch.setattr(cgroups, "managed_by_systemd", lambda: False)
    assert nspawn.boot_argv(web)[0] == "systemd-nspawn"


@pytest.fixture
def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def test_a_remembered_process_is_known_until_it_ends(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    file = tmp_path / "pid"
    pids.remember(file, sleeper.pid)
    assert pids.alive(file) == sleeper.pid
    pids.kill(file, signal.SIGTERM)
    assert pids.alive(file) is None
    sleeper.wait()


def test_another_process_with_the_same_number_is_left_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    file = tmp_path / "pid"
    pids.remember(file, sleeper.pid)
    file.write_text(file.read_text().replace("/", "/1"))
    pids.kill(file)
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x", "started": "y"}'])
def test_a_broken_memory_of_a_process_is_nobody(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pid"
    file.write_text(text)
    assert pids.alive(file) is None


def test_a_part_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with group.group(tmp_path) as parts:
        script = "import sys; print('the port is taken'); sys.exit(3)"
        parts.start("server", [sys.executable, "-c", script], os.environ)
        parts._members["server"].wait(30)
        with pytest.raises(ApplianceError, match=r"(?s)server ended with status 3.*port is taken"):
            parts.check()


def test_leaving_the_group_ends_its_processes(tmp_path: Path) -> None:
    script = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with group.group(tmp_path) as parts:
        parts.start("sleeper", [sys.executable, "-c", script], os.environ)
        deadline = time.monotonic() + 30
        while not (said := parts.log("sleeper").read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert not Path(f"/proc/{said.strip()}").exists()


def test_a_folder_that_may_not_be_written_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ApplianceError, match=f"may not write to {tmp_path}"):
        local_root.check_writable(tmp_path / "build/local")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], True),
        (["-x"], True),
        (["tests/boot"], True),
        (["tests/unit"], False),
        (["tests/unit/test_lint_shell.py", "-q"], False),
        (["tests/unit", "tests/boot/test_guide.py"], True),
    ],
)
def test_the_image_is_built_only_for_boot_tests(arguments: list[str], *, wanted: bool) -> None:
    assert checks.wants_boot(arguments) is wanted
