"""What is wrong is found from every part, with a command; a healthy instance has nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from status_support import GIB, HEALTHY, unit

from appliance.status.report import (
    ApiKeys,
    CredentialsFile,
    Disk,
    FirstBoot,
    Gate,
    Instance,
    Listener,
    Login,
    Memory,
    Model,
    Parts,
    Reach,
    Served,
    Unknown,
    Updates,
)
from appliance.status.wrong import problems

OPEN = Gate(running=True, answers=True, refuses_strangers=False, accepts_key=True, said="")
DEAD = Gate(running=False, answers=None, refuses_strangers=None, accepts_key=None, said="")
MUTE = Gate(running=True, answers=False, refuses_strangers=None, accepts_key=None, said="no")
DEAF = Gate(running=True, answers=True, refuses_strangers=True, accepts_key=False, said="")
FAILED = FirstBoot("failed", None, None, "infinity-firstboot: There is no name. Hint: Write one.")
SERVED = (Served("owner/name", ("embed",)),)


def units(**changed: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a unit
    others = tuple(each for each in HEALTHY.units or () if each.name != changed["name"])
    return {"units": (*others, unit(**changed))}


def certificate(**changed: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a certificate
    assert HEALTHY.certificate
    return {"certificate": replace(HEALTHY.certificate, **changed)}


def listener(port: int, process: str, *, beyond: bool) -> dict[str, Any]:
    made = Listener("tcp", "::", port, process, beyond_loopback=beyond, expected=False)
    return {"ports": (made,)}


CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "open gate": ({"gate": OPEN}, "without a credential", "infinity-gate-check"),
    "egress": ({"egress": (Reach("192.0.2.1", "open"),)}, "can reach 192.0.2.1", "infinity"),
    "stranger's port": (listener(8888, "nc", beyond=True), "nc listens beyond loopback", "ss "),
    "server's port taken": (listener(7997, "nc", beyond=False), "nc listens on tcp", "ss "),
    "first boot": ({"first_boot": FAILED}, "first boot failed: There is no name$", "firstboot"),
    "never booted": ({"first_boot": FirstBoot("never", None, None, "")}, "not run", "firstboot"),
    "settings": ({"host": None}, "settings are lost", "firstboot"),
    "copied disk": (
        {"instance": Instance("i-0abc", None, "i-0def")}, "another instance", "firstboot",
    ),
    "cut off": ({"change_pending": True}, "cut off", "infinity-restore"),
    "nginx dead": ({"gate": DEAD}, "nginx does not run", "restart nginx"),
    "nginx mute": ({"gate": MUTE}, "does not answer: no", "restart nginx"),
    "key refused": ({"gate": DEAF}, "refuses this instance's API key", "reload nginx"),
    "no model": (
        units(name="infinity-model.service", active="failed", said="No such model. Hint: x."),
        "could not be fetched: No such model$", "journalctl",
    ),
    "server dead": (
        units(name="infinity.service", active="failed", said="Out of memory."),
        "does not run: Out of memory$", "restart infinity.service",
    ),
    "server dies": (
        units(name="infinity.service", restarts=9), "restarted 9 times", "journalctl",
    ),
    "server silent": (
        {"model": Model("owner/name", SERVED, "loading")}, "does not answer", "restart",
    ),
    "another model": (
        {"model": Model("owner/new", SERVED, "ready")}, "owner/new is configured", "restart",
    ),
    "expired": (certificate(days_left=-1), "has expired", "infinity-renew"),
    "not yet": (certificate(not_before="2999-01-01T00:00:00Z"), "before 2999-01-01", "renew"),
    "expires": (certificate(days_left=3, maker="operator"), "in 3 days", "set-certificate"),
    "other key": (
        certificate(key_matches=False, maker="operator"),
        "do not belong together", "set-certificate",
    ),
    "other name": (certificate(covers_host=False), "not for a.example.com", "infinity-renew"),
    "no certificate": ({"certificate": None}, "no certificate", "firstboot"),
    "nobody let in": (
        {"api_keys": ApiKeys(0, (), 0), "login": Login(enabled=False, users=())},
        "no API key and no login", "infinity-api-key add",
    ),
    "no key map": ({"api_keys": None}, "API keys cannot be read", "firstboot"),
    "no logins": ({"login": None}, "logins cannot be read", "firstboot"),
    "file lies": (
        {"credentials_file": CredentialsFile(present=True, untrue=("INFINITY_API_KEY",))},
        "out of date: INFINITY_API_KEY", "credentials.txt",
    ),
    "disk full": ({"disks": (Disk("/", 50 * GIB, GIB // 2, 90),)}, "/ is full", "du "),
    "no inodes": ({"disks": (Disk("/", 50 * GIB, 30 * GIB, 1),)}, "no room for more", "inodes"),
    "no memory": ({"memory": Memory(8 * GIB, GIB // 4, None, None)}, "memory is short", "ps "),
    "old updates": (
        {"updates": Updates(3, "x", 72.0, reboot_required=False)}, "3 security", "unattended",
    ),
    "reboot": (
        {"updates": Updates(0, "x", None, reboot_required=True)}, "reboot only", "reboot",
    ),
    "no systemd": ({"units": None}, "systemd does not answer", "systemctl"),
}  # fmt: skip


def test_a_healthy_instance_has_no_problem() -> None:
    assert problems(HEALTHY) == ()


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_named_with_the_command_that_mends_it(name: str) -> None:
    changed, about, command = CASES[name]
    found = problems(replace(HEALTHY, **changed))
    assert len(found) == 1, found

    assert re.search(about, found[0].what), found[0].what
    assert command in found[0].command


def test_what_is_fine_is_no_problem() -> None:
    fine: list[dict[str, Any]] = [
        {"credentials_file": CredentialsFile(present=False, untrue=())},  # deleted by the operator
        {"login": Login(enabled=False, users=())},
        {"updates": Updates(3, "x", 5.0, reboot_required=False)},  # installed within a day
        {"instance": Instance("i-0abc", None, None)},  # metadata switched off
        {"egress": None},
        units(name="infinity.service", active="activating"),
    ]
    for changed in fine:
        assert problems(replace(HEALTHY, **changed)) == ()


def test_nothing_known_is_no_crash_and_not_healthy() -> None:
    assert problems(Parts()) != ()


def test_a_failed_boot_is_told_once_and_not_as_a_dead_nginx_too() -> None:
    parts = replace(
        HEALTHY, first_boot=FAILED, gate=DEAD, host=None, unknown=(Unknown("host", "lost"),)
    )
    assert [each.what for each in problems(parts)] == ["first boot failed: There is no name"]
