"""Floods and slow clients against a booted machine: who has the key, and who probes, are answered.

`make audit` measures how quickly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from appliance.run import run
from audit.attacks.http1 import KEPT
from audit.attacks.launch import ATTACKS, Attack, attacked
from audit.attacks.witness import Witness
from machine.instance import Machine

pytestmark = pytest.mark.boot

SECONDS = 2.0
NETWORK = "fd00:13::/64"
# What an attack may be answered; connections that are ended instead are as good.
ANSWERS = {
    "bad-logins": {"401", "429"},
    "bad-keys": {"401"},
    "long-credentials": {"431"},
    "full-bodies": {"401"},
    "zipped-bodies": {"401"},
    "probes": {"200"},
    "handshakes": {"200"},
}

# Wrong logins, each from another address of one network; prints what they met, and the seconds.
FROM_A_NETWORK = """
import base64, collections, json, socket, ssl, sys, time
context = ssl._create_unverified_context()
wrong = base64.b64encode(b"admin:wrong").decode()
lines = ["GET /models HTTP/1.1", f"Host: {sys.argv[1]}", f"Authorization: Basic {wrong}", "", ""]
request = "\\r\\n".join(lines)
began, met = time.monotonic(), collections.Counter()
for number in range(1, 201):
    with socket.socket(socket.AF_INET6) as plain:
        plain.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND
        plain.bind((f"fd00:13::{number:x}", 0))
        plain.connect(("::1", 443))
        with context.wrap_socket(plain, server_hostname=sys.argv[1]) as secure:
            secure.sendall(request.encode())
            met[secure.recv(12).decode()[-3:]] += 1
print(json.dumps([met, time.monotonic() - began]))
"""


@pytest.fixture(scope="module")
def witness(shared: Machine) -> Witness:
    return Witness.of(shared)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_under_attack_the_key_and_the_probe_are_answered(
    shared: Machine, witness: Witness, attack: Attack
) -> None:
    with attacked(shared, attack, witness.host) as met:
        noticed = witness.watch(SECONDS)
    assert noticed.failed == []
    assert noticed.key
    assert noticed.healthz
    assert {what for what in met if what.isdigit()} <= ANSWERS.get(attack.attacker, set())
    assert bool(met["429"]) == bool(met["Retry-After"])
    assert not met["unavailable"]
    if attack.slow:
        assert met["connected"] > 0
    if attack.attacker == "idle":
        assert met["kept"] >= KEPT


@pytest.fixture
def many_addresses(shared: Machine) -> Iterator[None]:
    """The machine may call itself from every address of a network."""
    route = ["ip", "-n", shared.place.inside, "-6", "route"]
    run([*route, "replace", "local", NETWORK, "dev", "lo"])
    yield
    run([*route, "del", "local", NETWORK, "dev", "lo"])


@pytest.mark.usefixtures("many_addresses")
def test_all_addresses_of_an_ipv6_network_count_as_one(shared: Machine, witness: Witness) -> None:
    said = shared.exec(["python3", "-c", FROM_A_NETWORK, witness.host]).stdout
    met, seconds = json.loads(said)
    assert set(met) <= {"401", "429"}
    assert 0 < met["401"] <= 13 + 10 * seconds + 1
