"""What a booted machine shows to the network, and what its services can reach from within."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
from collections.abc import Iterator

import probe
import pytest

from machine.instance import Machine
from machine.network import METADATA_ADDRESS

pytestmark = pytest.mark.boot

# Tries to reach each host:port given and says how that ended.
REACH = """
import json, socket, sys
def attempt(kind, host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, kind) as door:
        door.settimeout(3)
        try:
            door.connect((host, port))
            if kind == socket.SOCK_DGRAM:
                door.send(b"ping")
                door.recv(16)
            return "reached"
        except OSError as error:
            return type(error).__name__
kinds = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
answers = {}
for target in sys.argv[1:]:
    kind, host, port = target.split(",")
    answers[target] = attempt(kinds[kind], host, int(port))
print(json.dumps(answers))
"""

# Beyond the machine, on its router: a TCP and a UDP port that answer.
LISTEN = """
import socket, sys, threading
tcp = socket.create_server((sys.argv[1], 8099))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((sys.argv[1], 8099))
def echo():
    while True:
        data, peer = udp.recvfrom(16)
        udp.sendto(data, peer)
threading.Thread(target=echo, daemon=True).start()
print("listening", flush=True)
while True:
    tcp.accept()[0].close()
"""


@pytest.fixture(scope="module")
def neighbour(shared: Machine) -> Iterator[list[str]]:
    """Targets that answer, one hop away from the machine."""
    address = shared.address.rpartition(".")[0] + ".1"
    router = ["ip", "netns", "exec", shared.place.router]
    argv = [*router, sys.executable, "-c", LISTEN, address]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == b"listening\n"
        yield [f"tcp,{address},8099", f"udp,{address},8099"]
        listener.kill()


def reached(machine: Machine, targets: list[str], unit: str = "") -> set[str]:
    """Which targets a process reaches: one in the unit's control group, or one in none."""
    enter = ""
    if unit:
        group = probe.show(machine, unit, "ControlGroup")
        enter = f"echo $$ >/sys/fs/cgroup{group}/cgroup.procs && "
    done = machine.exec(f"{enter}exec python3 - {' '.join(targets)}", REACH)
    return {target for target, end in json.loads(done.stdout).items() if end == "reached"}


def test_neighbours_are_reached_by_the_machine_but_not_from_the_model_servers_group(
    shared: Machine, neighbour: list[str]
) -> None:
    outside = [*neighbour, f"tcp,{METADATA_ADDRESS},80", f"tcp,{shared.address},443"]
    loopback = "tcp,127.0.0.1,7997"
    assert reached(shared, [*outside, loopback]) == {*outside, loopback}, "no proof without a route"
    assert reached(shared, [*outside, loopback], "infinity.service") == {loopback}


def test_metadata_is_out_of_reach_for_nginx_and_clients_are_not(
    shared: Machine, neighbour: list[str]
) -> None:
    metadata = f"tcp,{METADATA_ADDRESS},80"
    assert reached(shared, [*neighbour, metadata]) == {*neighbour, metadata}
    assert reached(shared, [*neighbour, metadata], "nginx.service") == set(neighbour)


def test_only_sshd_and_nginx_listen_beyond_loopback(shared: Machine) -> None:
    lines = shared.exec("ss -Htulnp").stdout.splitlines()
    beyond = {}
    for line in lines:
        kind, _, _, _, local, _, *process = line.split()
        address, _, port = local.rpartition(":")
        if not address.strip("[]").split("%")[0].startswith(("127.", "::1")):
            beyond[f"{kind} {port}"] = " ".join(process)
    assert set(beyond) == {"tcp 22", "tcp 80", "tcp 443"}
    assert "sshd" in beyond["tcp 22"]
    assert "nginx" in beyond["tcp 80"]
    assert "nginx" in beyond["tcp 443"]


def test_ports_of_the_server_and_others_are_closed_from_outside(shared: Machine) -> None:
    assert not probe.open_port(shared, 7997)
    assert probe.open_port(shared, 443)


def test_paris_ranks_first_through_tls_nginx_and_key(shared: Machine) -> None:
    mine = probe.credentials(shared)
    question = "What is the capital of France?"
    texts = [question, "Berlin is a city in Germany.", "Paris is the capital of France."]
    body = {"model": mine.model, "input": texts}
    answer = probe.request(shared, "/v1/embeddings", headers=mine.bearer, body=body)
    assert answer.status_code == 200, answer.text
    asked, berlin, paris = [row["embedding"] for row in answer.json()["data"]]
    assert len(asked) == 384
    assert cosine(asked, paris) > cosine(asked, berlin) + 0.1


def cosine(a: list[float], b: list[float]) -> float:
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / math.hypot(*a) / math.hypot(*b)


@pytest.mark.parametrize("path", ["/models", "/v1/models", "/metrics", "/docs", "/openapi.json"])
def test_page_needs_the_key_letter_by_letter(shared: Machine, path: str) -> None:
    mine = probe.credentials(shared)
    letter = next(character for character in mine.api_key[4:] if character.isalpha())
    at = mine.api_key.index(letter, 4)
    flipped = mine.api_key[:at] + letter.upper() + mine.api_key[at + 1 :]
    for headers in ({}, {"Authorization": f"Bearer {flipped}"}):
        refused = probe.request(shared, path, headers=headers)
        assert refused.status_code == 401
        assert refused.json()["error"].keys() >= {"message", "type", "code"}
        assert "detail" in refused.json()
    assert probe.request(shared, path, headers=mine.bearer).status_code == 200


def test_probes_answer_for_any_host_and_everything_else_is_closed(shared: Machine) -> None:
    for path in ("/healthz", "/readyz"):
        assert not probe.hangs_up(shared, path, "192.0.2.1")
    for path in ("/", "/health", "/models", "/embeddings"):
        assert probe.hangs_up(shared, path, "evil.example")


def test_plain_http_redirects_the_own_name_only(shared: Machine) -> None:
    host = probe.credentials(shared).host
    assert f"301 https://{host}/models" == plain(shared, host)
    assert plain(shared, "evil.example") == ""


def plain(machine: Machine, host: str) -> str:
    """Status and Location of /models over plain HTTP; empty when hung up on."""
    with socket.create_connection((machine.address, 80), 10) as door:
        door.sendall(f"GET /models HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        try:
            answer = b"".join(iter(lambda: door.recv(4096), b"")).decode()
        except ConnectionResetError:
            answer = ""
    if not answer:
        return ""
    location = [line for line in answer.splitlines() if line.lower().startswith("location:")]
    return f"{answer.split()[1]} {location[0].partition(': ')[2]}"


def test_gate_that_a_change_opened_stops_nginx(shared: Machine) -> None:
    snippet = "/etc/nginx/infinity/gate.conf"
    kept = shared.exec(["cat", snippet]).stdout
    try:
        shared.exec(["tee", snippet], "auth_basic off;\n")
        restarted = shared.exec(["systemctl", "restart", "nginx"], check=False)
        assert restarted.returncode != 0
        assert probe.state(shared, "nginx.service") == "failed"
        assert not probe.open_port(shared, 443)
        told = [line for line in probe.said(shared, "nginx.service") if "Hint:" in line]
        assert len(told) == 1
    finally:
        shared.exec(["tee", snippet], kept)
        shared.exec(["systemctl", "restart", "nginx"])
    probe.serves(shared)


def test_no_job_of_the_boot_is_dropped_for_a_cycle(shared: Machine) -> None:
    verified = shared.exec("systemd-analyze verify --man=no multi-user.target 2>&1", check=False)
    cycles = [line for line in verified.stdout.splitlines() if "cycle" in line]
    assert cycles == []
