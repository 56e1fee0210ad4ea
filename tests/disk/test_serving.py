"""A disk that boots by itself serves, is not taken down from within, and comes back."""

from __future__ import annotations

import time

import probe
import pytest

from audit.rows import disk as figures
from machine.virtual import Virtual

pytestmark = pytest.mark.boot

SECRETS = [str(path) for path in probe.IDENTITY]
GROUP = "/sys/fs/cgroup/infinity.slice/infinity.service"
# What the profiles deny by name, read by the shell itself, and executing anything.
INTRUDER = """
for path in /root/infinity-credentials.txt /etc/shadow /etc/ssh/sshd_config; do
    (: <$path) && echo "$0 reads $path"
done
/bin/ls / >/dev/null && echo "$0 executes"
"""
# Root in the server's control group, where only the group's own limits bind.
FORK_BOMB = f"""
echo $$ >{GROUP}/cgroup.procs
exec python3 -c '
import os, signal
children = []
try:
    while len(children) < 3000:
        children.append(os.fork() or signal.pause())
except BlockingIOError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
'
"""
# A child's status: sudo would end by the same signal, and SSH then tells none.
HOG = f"""
(
    echo $BASHPID >{GROUP}/cgroup.procs
    echo 1000 >/proc/$BASHPID/oom_score_adj
    exec python3 -c 'b = [b"x" * (1 << 24) for _ in range(1024)]'
)
echo "status $?"
"""
PATIENCE = 1500.0  # seconds
KILLED = 137


def test_first_boot_serves_an_embedding(serving: Virtual, started: float) -> None:
    vector = embedding(serving)
    seconds = time.monotonic() - started
    assert len(vector) == 384
    assert probe.request(serving, "/v1/models").status_code == 401
    figures.note("boot", f"serves {seconds:.0f} s after the start, disk made", passed=True)


def test_nothing_failed(serving: Virtual) -> None:
    assert serving.exec(["systemctl", "--failed", "--no-legend", "--plain"]).stdout == ""


def test_apparmor_refuses_nothing_that_is_needed(serving: Virtual) -> None:
    """After a first boot, a gate check, a model loaded, and an embedding."""
    units = ("nginx", "infinity")
    confined = [
        serving.exec(f"cat /proc/$(systemctl show -P MainPID {unit})/attr/current").stdout.strip()
        for unit in units
    ]
    search = "grep -hE 'apparmor=.(DENIED|ALLOWED)' /var/log/audit/audit.log"
    log = serving.exec(search, check=False).stdout.splitlines()
    ours = [line for line in log if 'profile="infinity-' in line]
    passed = confined == ["infinity-nginx (enforce)", "infinity-server (enforce)"] and not ours
    figures.note("apparmor", f"{len(ours)} refusals while serving", passed=passed)
    assert passed, (confined, ours[:5])


@pytest.mark.parametrize("profile", ["infinity-nginx", "infinity-server"])
def test_apparmor_lets_an_intruder_read_and_execute_nothing(serving: Virtual, profile: str) -> None:
    attack = ["bash", "-c", INTRUDER, "intruder"]
    confined = serving.exec(["aa-exec", "-p", profile, "--", *attack], check=False)
    assert confined.stdout == ""
    assert confined.stderr.count("Permission denied") == 4
    assert serving.exec(attack).stdout.count("intruder") == 4, "what is tried can succeed"


def test_fork_bomb_is_bounded_and_the_machine_answers(serving: Virtual) -> None:
    limit = serving.exec(["cat", f"{GROUP}/pids.max"]).stdout.strip()
    serving.exec(FORK_BOMB, check=False)
    refused = int(serving.exec(f"sed -n 's/^max //p' {GROUP}/pids.events").stdout)
    answers = probe.request(serving, "/healthz").status_code
    passed = refused > 0 and answers == 200
    figures.note("tasks", f"bounded at {limit}, /healthz {answers}", passed=passed)
    assert passed, (limit, refused, answers)


def test_memory_hog_is_killed_and_the_machine_answers(serving: Virtual) -> None:
    limit = int(serving.exec(["cat", f"{GROUP}/memory.max"]).stdout)
    total = 1024 * int(serving.exec("awk '/^MemTotal/ {print $2}' /proc/meminfo").stdout)
    ended = serving.exec(HOG, check=False)
    answers = probe.request(serving, "/healthz").status_code
    killed = f"status {KILLED}" in ended.stdout and limit < total
    told = f"killed at {limit >> 20} of {total >> 20} MiB, /healthz {answers}"
    figures.note("memory", told, passed=killed and answers == 200)
    assert killed, ended
    assert answers == 200


def test_reboot_serves_again_with_the_same_credentials(serving: Virtual) -> None:
    """After the hog, which took the server with it."""
    digest = f"sha256sum {' '.join(SECRETS)} /etc/ssh/ssh_host_*_key"
    before = serving.exec(digest).stdout
    started = time.monotonic()
    serving.reboot(PATIENCE)
    vector = embedding(serving)
    seconds = time.monotonic() - started
    same = serving.exec(digest).stdout == before
    figures.note("reboot", f"{seconds:.0f} s to the next embedding", passed=same)
    assert len(vector) == 384
    assert same


def embedding(machine: Virtual) -> list[float]:
    said = probe.credentials(machine)
    body = {"model": said.model, "input": "cloudimg makes self-hosted AI easy"}
    answer = probe.request(machine, "/v1/embeddings", headers=said.bearer, body=body, timeout=120)
    assert answer.status_code == 200, answer.text
    vector: list[float] = answer.json()["data"][0]["embedding"]
    return vector
