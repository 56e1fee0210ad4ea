"""The guide's command blocks, executed as ubuntu over SSH, print what the guide shows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import probe
import pytest

from appliance.ami import guide
from appliance.ami.guide import Block
from appliance.run import Completed, run
from machine.instance import Machine

pytestmark = pytest.mark.boot

BLOCKS = guide.blocks(guide.GUIDE.read_text())
CHANGING = {9, 12}  # steps that change what the machine serves
READING = [block for block in BLOCKS if block.language == "console" and block.step not in CHANGING]
NEW_PASSWORD = "a-password-of-the-operators"


def check(machine: Machine, block: Block, done: Completed) -> None:
    assert block.expected is not None
    mine = probe.credentials(machine)
    wrong = guide.difference(block.expected, done.stdout, host=mine.host, model=mine.model)
    assert not wrong, f"{wrong}\n{done.stderr}"


@pytest.mark.parametrize("block", READING, ids=lambda block: block.name)
def test_block_prints_what_the_guide_shows(shared: Machine, block: Block) -> None:
    check(shared, block, probe.ssh(shared, block.code))


def test_launch_key_logs_in_and_sudo_reads_the_credentials(shared: Machine) -> None:
    shown = probe.ssh(shared, "sudo cat /root/infinity-credentials.txt")
    assert shown.stdout == shared.exec(["cat", "/root/infinity-credentials.txt"]).stdout
    assert probe.ssh(shared, "cat /root/infinity-credentials.txt").returncode != 0


def test_client_of_step_8_embeds_over_tls(shared: Machine, tmp_path: Path) -> None:
    (block,) = [block for block in BLOCKS if block.language == "python"]
    mine = probe.credentials(shared)
    pem = shared.exec(["cat", "/etc/ssl/infinity/infinity.crt"]).stdout
    (tmp_path / "infinity.crt").write_text(pem)
    filled = (
        block.code.replace("<your-infinity-host>", mine.host)
        .replace("<your INFINITY_API_KEY>", mine.api_key)
        .replace(guide.DOCUMENTED_MODEL, mine.model)
    )
    resolver = guide.RESOLVER.format(host=mine.host, address=shared.address)
    (tmp_path / "client.py").write_text(f"{resolver}\n{filled}\n")
    done = run([sys.executable, "client.py"], cwd=tmp_path, check=False, timeout=120)
    check(shared, block, done)


def step_9(number: int) -> Block:
    blocks = {block.number: block for block in BLOCKS if block.step == 9}
    assert sorted(blocks) == [1, 2, 3], "name and certificate by command, the name by hand"
    return blocks[number]


@pytest.fixture
def renamed(other: Machine) -> Iterator[Machine]:
    """To serve another name; its own comes back, with everything else as it was."""
    before = probe.credentials(other)
    yield other
    other.exec("infinity-set-certificate --self-signed && rm -f /etc/cloudimg/infinity-hostname")
    other.exec(["systemctl", "restart", "infinity-firstboot.service", "nginx.service"])
    assert probe.serves(other) == before, "without the file the metadata's name is served again"


@pytest.mark.parametrize("number", [1, 3])
def test_name_of_step_9_is_served_and_key_and_login_stay(renamed: Machine, number: int) -> None:
    before, block = probe.credentials(renamed), step_9(number)
    done = probe.ssh(renamed, block.code)
    after = probe.serves(renamed)
    assert block.expected is not None
    assert done.stdout == block.expected.text + "\n", done.stderr
    assert after.host == "embeddings.example.com"
    assert (after.api_key, after.password) == (before.api_key, before.password)


def test_certificate_of_step_9_is_shown(renamed: Machine) -> None:
    host = probe.credentials(renamed).host
    renamed.exec(
        "openssl req -x509 -nodes -newkey rsa:2048 -days 9 -keyout privkey.pem -out fullchain.pem "
        f"-subj /CN={host} -addext subjectAltName=DNS:{host} 2>/dev/null && chmod 600 privkey.pem",
        user="ubuntu",
    )
    check(renamed, step_9(2), probe.ssh(renamed, step_9(2).code))
    theirs = renamed.exec("cat ~ubuntu/fullchain.pem").stdout
    assert renamed.exec(["cat", str(probe.PATHS.certificate)]).stdout == theirs
    probe.serves(renamed)
    renamed.exec("rm ~ubuntu/*.pem")


def step_12(number: int) -> Block:
    blocks = {block.number: block for block in BLOCKS if block.step == 12}
    assert sorted(blocks) == [1, 2, 3, 4], "the commands for keys and password, then both by hand"
    return blocks[number]


def test_commands_of_step_12_print_what_the_guide_shows(other: Machine) -> None:
    before = probe.serves(other)
    for number in (1, 2):
        check(other, step_12(number), probe.ssh(other, step_12(number).code))
    after = probe.serves(other)
    assert after.api_key == before.api_key
    assert after.password != before.password


def test_key_of_step_12_replaces_the_old_one(other: Machine) -> None:
    block = step_12(3)
    kept = other.exec(["cat", "/etc/nginx/infinity-apikey.map"]).stdout
    old = probe.serves(other)
    done = probe.ssh(other, block.code)
    check(other, block, done)
    fresh = {"Authorization": f"Bearer {done.stdout.split()[-1]}"}
    probe.eventually(lambda: status(other, old.bearer) == 401, "the old key's end", 10)
    assert status(other, fresh) in {200, 503}
    assert other.exec("stat -c '%a %U' /etc/nginx/infinity-apikey.map").stdout == "600 root\n"
    other.exec(["tee", "/etc/nginx/infinity-apikey.map"], kept)
    other.exec(["systemctl", "reload", "nginx"])
    probe.eventually(lambda: status(other, fresh) == 401, "the end of the test's key", 10)


def test_password_of_step_12_replaces_the_old_one(other: Machine) -> None:
    block = step_12(4)
    kept = other.exec(["cat", "/etc/nginx/.infinity.htpasswd"]).stdout
    old = probe.serves(other)
    done = probe.ssh(other, block.code, NEW_PASSWORD + "\n")
    assert done.returncode == 0, done.stderr
    check(other, block, done)
    probe.eventually(
        lambda: login(other, "admin", old.password) == 401, "the old password's end", 10
    )
    assert login(other, "admin", NEW_PASSWORD) in {200, 503}
    other.exec(["tee", "/etc/nginx/.infinity.htpasswd"], kept)
    other.exec(["systemctl", "reload", "nginx"])


def status(machine: Machine, headers: dict[str, str]) -> int:
    return probe.request(machine, "/models", headers=headers).status_code


def login(machine: Machine, user: str, password: str) -> int:
    return probe.request(machine, "/models", auth=(user, password)).status_code
