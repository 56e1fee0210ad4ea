"""A hostile model: code in the model server's control group, user and sandbox tries everything.

A twin of infinity.service, with its unit's text, runs another program (hostile.py) and is moved
into the control group of the one that serves.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import probe
import pytest

from machine.instance import Machine
from machine.network import METADATA_ADDRESS

pytestmark = pytest.mark.boot

UNIT = "infinity.service"
TWIN = "infinity-twin.service"
PROGRAM = "/run/hostile.py"
OUTPUT = "/run/hostile.json"
BOMB = "/var/cache/infinity/bomb"
ANSWERING = """
import socket, sys
tcp = socket.create_server((sys.argv[1], 8098))
print("listening", flush=True)
while True:
    tcp.accept()[0].close()
"""
# Appended to the unit's own text, so that it wins.
OTHERWISE = f"""
[Service]
Type=exec
WatchdogSec=0
Restart=no
ExecStart=
ExecStart=/opt/infinity/venv/bin/python -I - %s
StandardInput=file:{PROGRAM}
StandardOutput=truncate:{OUTPUT}
"""


@pytest.fixture(scope="module")
def targets(shared: Machine) -> Iterator[list[str]]:
    """What answers, one hop away or on the machine's own address."""
    address = shared.address.rpartition(".")[0] + ".1"
    argv = ["ip", "netns", "exec", shared.place.router, sys.executable, "-c", ANSWERING, address]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == b"listening\n"
        yield [
            f"tcp,{address},8098",
            f"tcp,{METADATA_ADDRESS},80",
            f"tcp,{shared.address},22",
            f"tcp,{shared.address},443",
            f"udp,{METADATA_ADDRESS},53",
            "tcp,fd00:ec2::254,80",
        ]
        listener.kill()


@contextlib.contextmanager
def twin(machine: Machine, targets: list[str]) -> Iterator[None]:
    """The twin started and moved; afterwards nothing of it is left."""
    text = machine.exec(["systemctl", "cat", UNIT]).stdout
    try:
        machine.exec(["tee", PROGRAM], (Path(__file__).parent / "hostile.py").read_text())
        machine.exec(["tee", f"/run/systemd/system/{TWIN}"], text + OTHERWISE % " ".join(targets))
        machine.exec(["systemctl", "daemon-reload"])
        machine.exec(["systemctl", "start", TWIN])
        group = probe.show(machine, UNIT, "ControlGroup")
        process = probe.show(machine, TWIN, "MainPID")
        machine.exec(f"echo {process} >/sys/fs/cgroup{group}/cgroup.procs")
        yield
    finally:
        machine.exec(["systemctl", "kill", "--signal=KILL", TWIN], check=False)
        machine.exec(f"rm -f {PROGRAM} {OUTPUT} /run/systemd/system/{TWIN} /var/cache/infinity/*")
        machine.exec(["systemctl", "daemon-reload"])


@pytest.fixture(scope="module")
def told(shared: Machine, targets: list[str]) -> Iterator[dict[str, str]]:
    """The outcome of every attempt, and how the machine answered meanwhile."""
    with twin(shared, targets):

        def bombed() -> bool:
            return shared.exec(["test", "-s", BOMB], check=False).returncode == 0

        probe.eventually(bombed, "the fork bomb")
        health = probe.request(shared, "/healthz").status_code
        shell = shared.exec(["id", "-un"]).stdout.strip()
        shared.exec(["rm", BOMB])
        probe.eventually(lambda: probe.state(shared, TWIN) != "active", "the end of the attempts")
        outcomes: dict[str, str] = json.loads(shared.exec(["cat", OUTPUT]).stdout)
        yield outcomes | {"health meanwhile": str(health), "shell meanwhile": shell}


MEASURED = {"walk", "open files", "forks", "left behind",
            "health meanwhile", "shell meanwhile"}  # fmt: skip


def test_every_attempt_is_refused(told: dict[str, str]) -> None:
    tried = {name: said for name, said in told.items() if name not in MEASURED}
    assert len(tried) > 60
    assert {name: said for name, said in tried.items() if not said.startswith("refused: ")} == {}


def test_attempts_outside_the_sandbox_succeed(shared: Machine, targets: list[str]) -> None:
    """Or their refusal would prove nothing."""
    for path in (probe.PATHS.credentials, probe.PATHS.api_key_map, probe.PATHS.certificate_key):
        assert shared.exec(["cat", str(path)]).stdout
    assert shared.exec(["/bin/sh", "-c", "echo ran"], user="infinity").stdout == "ran\n"
    assert shared.exec(["cat", "/proc/1/cmdline"], user="infinity").stdout
    code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"
    for target in targets[:4]:
        _, host, port = target.split(",")
        shared.exec(["python3", "-c", code, host, port], user="infinity")
    bus = "import socket; socket.socket(socket.AF_UNIX).connect('/run/dbus/system_bus_socket')"
    shared.exec(["python3", "-c", bus], user="infinity")


def test_nothing_but_its_own_state_can_be_written(told: dict[str, str]) -> None:
    folders = json.loads(told["walk"].removeprefix("got: "))["writable"]
    allowed = re.compile(r"/(var/cache/infinity|tmp|var/tmp|dev/shm|dev/mqueue)(/.*)?")
    assert [folder for folder in folders if not allowed.fullmatch(folder)] == []
    assert "/var/cache/infinity" in folders


def test_nothing_but_the_interpreter_and_libraries_can_be_executed(told: dict[str, str]) -> None:
    files = json.loads(told["walk"].removeprefix("got: "))["executable"]
    interpreter = re.compile(r"/usr/bin/python3\.\d+")
    library = re.compile(r"(/opt/infinity/[^/]+/.*|/usr)/lib/(x86_64-linux-gnu|python3\.\d+)/.*")
    others = [path for path in files if not (interpreter.fullmatch(path) or library.match(path))]
    assert others == []
    assert any(interpreter.fullmatch(path) for path in files)


def test_open_files_end_at_the_limit(shared: Machine, told: dict[str, str]) -> None:
    limit = int(probe.show(shared, UNIT, "LimitNOFILE"))
    count, _, error = told["open files"].removeprefix("got: ").partition(" then ")
    assert error == "24", told["open files"]  # EMFILE
    assert limit - 16 <= int(count) <= limit


def test_fork_bomb_ends_at_the_limit_and_the_machine_answers(
    shared: Machine, told: dict[str, str]
) -> None:
    limit = int(probe.show(shared, UNIT, "LimitNPROC"))
    assert 0 < int(told["forks"].removeprefix("got: ")) <= limit
    assert told["health meanwhile"] == "200"
    assert told["shell meanwhile"] == "root"


def test_what_it_leaves_behind_ends_with_the_service(shared: Machine, told: dict[str, str]) -> None:
    assert told["left behind"] == "got: left behind"
    mine = probe.show(shared, UNIT, "MainPID")
    assert len(processes(shared)) > 1, "the leftover is there to be ended"
    shared.exec(["systemctl", "restart", UNIT], timeout=300)
    assert processes(shared) == [probe.show(shared, UNIT, "MainPID")] != [mine]
    probe.serves(shared)


def processes(machine: Machine) -> list[str]:
    return machine.exec(["pgrep", "-u", "infinity"], check=False).stdout.split()
