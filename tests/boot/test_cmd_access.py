"""`infinity-api-key` and `infinity-set-password` in a machine: who is let in, and when no more."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import probe
import pytest
from steady import steady

from machine.instance import Machine

pytestmark = pytest.mark.boot

CHANGE = "/var/lib/infinity-appliance/change.json"
LET_IN = {200, 503}  # 503: the model is still loading
COMMANDS = ("infinity-api-key rotate unnamed", "infinity-set-password --generate")


def status(machine: Machine, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return probe.request(machine, "/models", headers=headers).status_code


def login(machine: Machine, password: str) -> int:
    return probe.request(machine, "/models", auth=("admin", password)).status_code


def test_a_key_lives_from_add_over_its_grace_to_its_end_by_itself(other: Machine) -> None:
    first = other.exec("infinity-api-key add ci").stdout.strip()
    assert status(other, first) in LET_IN
    second = other.exec("infinity-api-key rotate ci --grace 5s").stdout.strip()
    assert {status(other, first), status(other, second)} <= LET_IN
    probe.eventually(lambda: status(other, first) == probe.REFUSED, "the end of the grace period")
    assert status(other, second) in LET_IN
    timers = "systemctl list-unit-files infinity-key-expiry.timer"
    probe.eventually(
        lambda: "0 unit files" in other.exec(timers, check=False).stdout, "the timer's removal"
    )
    log = other.exec("cat /var/log/nginx/access.log").stdout
    assert '"key":"ci"' in log
    assert first not in log
    assert second not in log
    other.exec("infinity-api-key revoke ci")
    assert status(other, second) == probe.REFUSED
    probe.serves(other)


def test_a_revoked_key_is_refused_on_a_connection_that_is_open(other: Machine) -> None:
    key = other.exec("infinity-api-key add open").stdout.strip()
    context = ssl.create_default_context(
        cadata=other.exec(["cat", str(probe.PATHS.certificate)]).stdout
    )
    context.check_hostname = False
    connection = http.client.HTTPSConnection(other.address, context=context, timeout=30)
    headers = {"Host": probe.credentials(other).host, "Authorization": f"Bearer {key}"}
    connection.request("GET", "/models", headers=headers)
    answer = connection.getresponse()
    answer.read()
    assert answer.status in LET_IN
    assert not answer.will_close
    other.exec("infinity-api-key revoke open")
    try:
        connection.request("GET", "/models", headers=headers)
        assert connection.getresponse().status == probe.REFUSED
    except (http.client.HTTPException, OSError):
        pass  # nginx has closed the connection, which refuses the request as well
    finally:
        connection.close()
    assert status(other, key) == probe.REFUSED


def test_the_guides_map_by_hand_is_listed_and_can_be_rotated(other: Machine) -> None:
    before = probe.credentials(other)
    by_hand = "inf-" + "0123456789ab" * 4
    other.exec(
        "tee /etc/nginx/infinity-apikey.map >/dev/null && systemctl reload nginx",
        input=f'"Bearer {by_hand}" 1;\n',
    )
    probe.eventually(lambda: status(other, by_hand) in LET_IN, "the reload")
    listed = json.loads(other.exec("infinity-api-key list --json").stdout)["keys"]
    assert [row["name"] for row in listed] == ["unnamed"]
    made = other.exec("infinity-api-key rotate unnamed").stdout.strip()
    assert status(other, by_hand) == probe.REFUSED
    assert status(other, before.api_key) == probe.REFUSED
    assert status(other, made) in LET_IN
    probe.serves(other)  # and the credentials file tells that key


def test_a_password_goes_in_over_standard_input_and_leaves_no_trace(other: Machine) -> None:
    old = probe.credentials(other).password
    new = "a password that nobody guessed"
    other.exec(["infinity-set-password"], input=new + "\n")
    assert login(other, old) == probe.REFUSED
    assert probe.serves(other).password == new
    assert new not in other.exec("journalctl --no-pager; cat /var/log/*.log").stdout


def test_a_login_that_is_off_is_off_until_it_is_switched_on(other: Machine) -> None:
    old = probe.credentials(other)
    other.exec("infinity-set-password --disable")
    assert login(other, old.password) == probe.REFUSED
    assert login(other, "") == probe.REFUSED
    assert probe.request(other, "/docs", auth=("admin", old.password)).status_code == probe.REFUSED
    assert status(other, old.api_key) in LET_IN
    other.exec("systemctl restart infinity-firstboot nginx")
    assert login(other, old.password) == probe.REFUSED
    other.exec("infinity-set-password --enable")
    assert login(other, old.password) == probe.REFUSED
    probe.serves(other)


def test_who_keeps_a_key_that_should_still_work_sees_no_change(other: Machine) -> None:
    with steady(other, answers=LET_IN) as calls:  # with the key that is replaced here
        other.exec("infinity-api-key add another")
        other.exec("infinity-api-key rotate unnamed --grace 1h")
        other.exec("infinity-set-password --generate")
        other.exec("infinity-set-password --disable")
        other.exec("infinity-set-password --enable")
        other.exec("infinity-api-key revoke another")
    assert calls.failed == []
    assert calls.asked > 20
    other.exec("infinity-api-key rotate unnamed")
    probe.serves(other)


def fails_without_a_trace(machine: Machine, command: str) -> str:
    """Run it; it must fail, and who is let in must be as before. Returns what it said."""
    before = probe.secrets(machine)
    done = machine.exec(command, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert probe.secrets(machine) == before
    probe.serves(machine)
    return done.stderr


@contextmanager
def nginx_broken(machine: Machine) -> Iterator[None]:
    slip = "/etc/nginx/infinity/timeouts.conf"
    machine.exec(f"cp -p {slip} /run/slip && echo 'no such directive;' >> {slip}")
    try:
        yield
    finally:
        machine.exec(f"cp -p /run/slip {slip}")


@contextmanager
def disk_full(machine: Machine, folder: str) -> Iterator[None]:
    """The folder on a disk of its own that has no byte left."""
    machine.exec(
        f"set -e; cp -a {folder} /run/copy; mount -t tmpfs -o size=64k,mode=700 small {folder}; "
        f"cp -a /run/copy/. {folder}; rm -r /run/copy; "
        f"! dd if=/dev/zero of={folder}/ballast bs=1k 2>/dev/null"
    )
    try:
        yield
    finally:
        machine.exec(f"cd / && umount {folder}")


@pytest.mark.parametrize("command", COMMANDS)
def test_where_nginx_refuses_all_is_as_before(other: Machine, command: str) -> None:
    with nginx_broken(other):
        said = fails_without_a_trace(other, command)
    assert "no such directive" not in said.splitlines()[0].partition("Hint")[2]
    assert "Nothing was changed." in said


@pytest.mark.parametrize("command", COMMANDS)
def test_where_the_disk_is_full_all_is_as_before(other: Machine, command: str) -> None:
    with disk_full(other, "/root"):
        said = fails_without_a_trace(other, command)
    assert "No space left on device" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_killed_in_the_middle_all_is_as_before(other: Machine, command: str) -> None:
    before = probe.secrets(other)
    killed = (
        f"{command} >/dev/null & pid=$!; until [ -e {CHANGE} ]; do kill -0 $pid || exit 3; done; "
        "kill -KILL $pid; wait $pid; exit 0"
    )
    assert other.exec(killed).returncode == 0
    probe.eventually(
        lambda: other.exec(["test", "-e", CHANGE], check=False).returncode == 1, "the way back"
    )
    assert probe.secrets(other) == before
    probe.serves(other)


def test_a_user_who_is_not_root_is_told_so(other: Machine) -> None:
    for command in ("infinity-api-key list", "infinity-set-password --generate"):
        done = other.exec(f"PATH=$PATH:/usr/sbin {command}", user="ubuntu", check=False)
        assert done.returncode == 2
        assert "sudo" in done.stderr
        assert len(done.stderr.splitlines()) == 1
