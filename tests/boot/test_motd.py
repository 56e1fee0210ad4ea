"""What a login by SSH shows: five true lines at the cost of next to nothing."""

from __future__ import annotations

import subprocess

import probe
import pytest
from test_failures import UNIT

from machine.instance import Machine

pytestmark = pytest.mark.boot

SCRIPT = "/etc/update-motd.d/20-infinity"
LABELS = ["Infinity", "State", "Credentials", "Commands", "Guide"]
SECONDS = 0.1  # of CPU


def shown(machine: Machine) -> dict[str, str]:
    lines = machine.exec([SCRIPT]).stdout.splitlines()
    assert [line.split()[0] for line in lines] == LABELS
    assert max(map(len, lines)) <= 80
    return {line.split()[0]: line.split(None, 1)[1] for line in lines}


def test_a_login_shows_five_lines_and_no_secret(shared: Machine) -> None:
    argv = ["ssh", "-tt", "-i", str(shared.ssh_key), "-o", "StrictHostKeyChecking=no",
            "-o", "UserKnownHostsFile=/dev/null", f"ubuntu@{shared.address}"]  # fmt: skip
    done = subprocess.run(argv, input=b"exit\n", capture_output=True, timeout=60, check=True)
    text = done.stdout.decode(errors="replace").replace("\r", "")
    mine = probe.credentials(shared)
    lines = [f"Infinity     https://{mine.host}/", "State        ready",
             "Credentials  sudo cat /root/infinity-credentials.txt"]  # fmt: skip
    assert "\n".join(lines) in text
    assert mine.api_key not in text
    assert mine.password not in text


def test_every_command_and_file_it_names_is_there(shared: Machine) -> None:
    said = shown(shared)
    assert shared.exec(["test", "-s", said["Guide"]], check=False).returncode == 0
    for command in said["Commands"].removeprefix("sudo ").split(" | "):
        assert shared.exec([f"/usr/sbin/{command}", "--help"]).stdout.startswith("usage:")


def test_a_login_does_not_wait_for_it(shared: Machine) -> None:
    took = []
    for _ in range(3):
        said = shared.exec(f"TIMEFORMAT='%U %S'; time {SCRIPT} >/dev/null").stderr
        took.append(sum(map(float, said.split())))
    assert min(took) < SECONDS, took


def test_it_is_true_while_things_are_down(fragile: Machine) -> None:
    fragile.exec(["systemctl", "restart", "--no-block", "infinity.service"])
    probe.eventually(lambda: "loading" in shown(fragile)["State"], "the restart")
    fragile.exec(["systemctl", "stop", "infinity.service"])
    assert "the model server does not run" in shown(fragile)["State"]
    fragile.exec(["systemctl", "stop", "nginx.service"])
    assert "nginx does not run" in shown(fragile)["State"]
    fragile.exec("echo 'not a name' >/etc/cloudimg/infinity-hostname")
    fragile.exec(["systemctl", "restart", UNIT], check=False)
    assert "first boot failed" in shown(fragile)["State"]
    fragile.exec(["rm", "/etc/cloudimg/infinity-hostname"])
    fragile.exec(["systemctl", "start", UNIT])
    probe.gate_up(fragile)
    assert "loading" in shown(fragile)["State"] or shown(fragile)["State"] == "ready"
