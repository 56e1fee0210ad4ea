"""`infinity-status` in a machine: well when all is well, and what is broken is named and mended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped] # it comes without types
import probe
import pytest
from test_failures import UNIT, ready

from machine.instance import Machine

pytestmark = pytest.mark.boot

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs/status.schema.json").read_text())
SECONDS = 1.0  # of CPU, as other load does not stretch it much


def status(machine: Machine) -> dict[str, Any]:
    """The report, which must be what the schema says and agree with the exit status."""
    done = machine.exec(["infinity-status", "--json"], check=False)
    document: dict[str, Any] = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert done.returncode == (0 if document["healthy"] else 1), done.stderr
    assert done.stderr == ""
    return document


def wrong(machine: Machine) -> list[str]:
    return [problem["what"] for problem in status(machine)["problems"]]


def mended(machine: Machine, about: str) -> None:
    """The status names this, and the command it gives with it takes it away."""
    (problem,) = [p for p in status(machine)["problems"] if re.search(about, p["what"])]
    machine.exec(problem["command"])
    left = [what for what in wrong(machine) if re.search(about, what)]
    assert left == []


@pytest.fixture
def well(other: Machine) -> Iterator[Machine]:
    """A machine of which the status has nothing to say, before and after."""
    probe.eventually(lambda: ready(other), "the model's readiness", 240)
    assert wrong(other) == []
    yield other
    probe.eventually(lambda: wrong(other) == [], "recovery", 120)


def test_a_healthy_machine_is_told_on_one_screen(shared: Machine) -> None:
    done = shared.exec(["infinity-status"], check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert lines[-1] == "Nothing is wrong."
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.stdout
    mine = probe.credentials(shared)
    for told in (mine.host, mine.model, "22 sshd, 80 nginx, 443 nginx; nothing unexpected"):
        assert told in done.stdout
    for secret in (mine.api_key, mine.password):
        assert secret not in done.stdout


def test_nothing_is_unknown_of_a_healthy_machine(shared: Machine) -> None:
    found = status(shared)
    assert found["unknown"] == []
    assert [key for key, value in found.items() if value is None] == []
    verdicts = {each["address"]: each["verdict"] for each in found["egress"]}
    assert verdicts.pop("fd00:ec2::254") in {"blocked", "no route"}
    assert set(verdicts) == {"169.254.169.254", "168.63.129.16", "192.0.2.1", shared.address}
    assert set(verdicts.values()) == {"blocked"}


def test_a_status_takes_less_than_a_second(shared: Machine) -> None:
    took = []
    for _ in range(3):
        said = shared.exec("TIMEFORMAT='%U %S'; time infinity-status >/dev/null").stderr
        took.append(sum(map(float, said.split())))
    assert min(took) < SECONDS, took


def test_only_root_may_ask(shared: Machine) -> None:
    done = shared.exec(["/usr/sbin/infinity-status"], user="ubuntu", check=False)
    assert done.returncode == 2
    assert "sudo infinity-status" in done.stderr
    assert done.stdout == ""


def test_an_opened_egress_is_found_by_trying_and_shut_by_the_command(well: Machine) -> None:
    nothing = ["IPAddressDeny=", "IPAddressAllow="]
    well.exec(["systemctl", "set-property", "--runtime", "infinity.slice", *nothing])
    well.exec(["rm", "-r", "/run/systemd/system.control/infinity.slice.d"])
    command = "sudo systemctl daemon-reload && sudo systemctl restart infinity.service"
    try:
        reached = [each for each in status(well)["problems"] if "can reach" in each["what"]]
        assert "192.0.2.1" in {each["what"].split()[-1] for each in reached}
        assert {each["command"] for each in reached} == {command}
    finally:
        well.exec(command, timeout=240)
    assert not [what for what in wrong(well) if "can reach" in what]


def test_a_stranger_that_listens_is_named(well: Machine) -> None:
    well.exec(["systemd-run", "--quiet", "--unit=stranger", "python3", "-m", "http.server", "8888"])
    try:
        probe.eventually(lambda: probe.open_port(well, 8888), "the stranger's start")
        assert wrong(well) == ["python3 listens beyond loopback on tcp port 8888"]
    finally:
        well.exec(["systemctl", "stop", "stranger.service"])


def test_a_dead_nginx_is_named_and_mended(well: Machine) -> None:
    well.exec(["systemctl", "stop", "nginx"])
    found = status(well)
    assert found["gate"]["running"] is False
    assert found["model"]["state"] == "ready"
    mended(well, "nginx does not run")


def test_a_dead_server_is_named_and_mended(well: Machine) -> None:
    well.exec(["systemctl", "stop", "infinity"])
    found = status(well)
    assert found["model"]["state"] == "down"
    assert {each["part"] for each in found["unknown"]} == {"egress", "requests"}
    assert found["gate_log"]["total"] > 0
    mended(well, "the model server does not run")


def test_a_hanging_server_does_not_hang_the_status(well: Machine) -> None:
    well.exec(["systemctl", "kill", "--signal=STOP", "infinity"])
    try:
        assert "the model does not answer" in wrong(well)
    finally:
        well.exec(["systemctl", "kill", "--signal=CONT", "infinity"])


def test_a_silent_metadata_service_is_no_fault_of_the_instance(well: Machine) -> None:
    well.metadata["fault"] = "hang"
    try:
        found = status(well)
        assert found["instance"]["metadata_id"] is None
        assert found["instance"]["id"]
        assert found["problems"] == []
    finally:
        del well.metadata["fault"]


def test_an_identity_of_another_instance_is_named(well: Machine) -> None:
    before = well.metadata.get("instance-id")
    well.metadata["instance-id"] = "i-0another"
    try:
        assert "this identity belongs to another instance" in wrong(well)
    finally:
        del well.metadata["instance-id"]
        if before is not None:
            well.metadata["instance-id"] = before


def test_a_deleted_credentials_file_is_fine_and_a_lying_one_is_not(well: Machine) -> None:
    path = str(probe.PATHS.credentials)
    kept = well.exec(["cat", path]).stdout
    try:
        well.exec(["rm", path])
        assert wrong(well) == []
        well.exec(["tee", path], kept.replace("_KEY=inf-", "_KEY=inf-0"))
        assert wrong(well) == ["the credentials file is out of date: INFINITY_API_KEY"]
    finally:
        well.exec(["tee", path], kept)
        well.exec(["chmod", "600", path])


def test_lost_settings_are_named_and_mended(well: Machine) -> None:
    well.exec(["rm", str(probe.PATHS.settings)])
    found = status(well)
    assert found["host"] is None
    mended(well, "the settings are lost")
    probe.serves(well)


def test_a_failed_first_boot_is_named_with_its_reason(well: Machine) -> None:
    well.exec("echo 'not a name' >/etc/cloudimg/infinity-hostname")
    well.exec(["systemctl", "restart", UNIT], check=False)
    try:
        (what,) = wrong(well)
        assert re.fullmatch(r"first boot failed: .*'not a name' is neither .*", what)
    finally:
        well.exec(["rm", "/etc/cloudimg/infinity-hostname"])
        well.exec(["systemctl", "restart", UNIT, "nginx"])


def test_a_disabled_login_is_told(well: Machine) -> None:
    path = str(probe.PATHS.htpasswd)
    kept = well.exec(["cat", path]).stdout
    try:
        well.exec(["tee", path], "# off\n")
        found = status(well)
        assert found["login"] == {"enabled": False, "users": []}
    finally:
        well.exec(["tee", path], kept)


def test_a_full_disk_is_named_and_stops_no_status(well: Machine) -> None:
    well.exec("mount -t tmpfs -o size=2m,mode=755 tmpfs /var/log && mkdir /var/log/nginx")
    well.exec("head -c 3M /dev/zero >/var/log/filler || true")
    try:
        assert any(what.startswith("/var/log is full") for what in wrong(well))
    finally:
        well.exec(["umount", "--lazy", "/var/log"])


def test_an_update_that_wants_a_reboot_is_named(well: Machine) -> None:
    well.exec(["touch", "/run/reboot-required"])
    try:
        assert wrong(well) == ["an update takes effect with a reboot only"]
    finally:
        well.exec(["rm", "/run/reboot-required"])


def test_security_updates_are_counted_by_a_service_without_rights(well: Machine) -> None:
    well.exec(["systemctl", "start", "infinity-updates.service"])
    count = json.loads(well.exec(["cat", "/var/cache/infinity-updates/count.json"]).stdout)
    assert count["security"] == 0
