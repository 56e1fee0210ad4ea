"""The README's "Launch on EC2", word for word: moto's EC2, and a machine for an instance."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import ec2_stand_in
import pytest
from ec2_stand_in import Hardware
from lint_tools import tool
from readme_reader import blocks, filled, typed

from appliance.ami import guide
from machine import build
from machine.instance import Machine
from tests.unit import moto_support

pytestmark = [pytest.mark.boot, pytest.mark.timeout(900)]

LAUNCH, LOG_IN, CALL = blocks("README.md", "## Launch on EC2")
# ssh reads the configuration of whoever runs the tests, whatever HOME says.
SSH = '#!/bin/sh\nexec {ssh} -F "$HOME/.ssh/config" "$@"\n'
# A reader says yes to the host key of an instance that nobody has met.
CONFIGURATION = """\
UserKnownHostsFile {home}/.ssh/known_hosts
StrictHostKeyChecking accept-new
BatchMode yes
ConnectTimeout 20
"""


@dataclass(frozen=True)
class Reader:
    """Somebody with an account and a key pair, who has launched an instance."""

    home: Path
    values: dict[str, str]
    machine: Machine

    def type(self, block: str) -> str:
        return typed(filled(block, self.values), self.home).stdout

    def type_there(self, block: str) -> str:
        """Logged in on the instance, where the lines after the first one of LOG_IN are typed."""
        first = LOG_IN.splitlines(keepends=True)[0]
        return self.type(first + block)


@pytest.fixture(scope="module")
def reader(
    tmp_path_factory: pytest.TempPathFactory,
    machine_host: None,  # noqa: ARG001 - decides before anything is made
) -> Iterator[Reader]:
    home = tmp_path_factory.mktemp("home")
    hardware = Hardware(build.build(), (), home / "disks")
    with pytest.MonkeyPatch.context() as patch, moto_support.moto_ec2(patch):
        values = account(home)
        patch.setenv("HOME", str(home))
        patch.setenv("PATH", str(home / "bin"), prepend=":")
        with ec2_stand_in.attached(hardware, patch):
            launched = typed(filled(LAUNCH, values), home)
            assert launched.returncode == 0, launched.stderr
            values["public-ip"] = launched.stdout.strip()
            (machine,) = hardware.machines.values()
            yield Reader(home, values, machine)


def account(home: Path) -> dict[str, str]:
    """A key pair as EC2 makes one, its private half where the README has it, and a group."""
    ec2 = boto3.Session().client("ec2", region_name=moto_support.REGION)
    pair = ec2.create_key_pair(KeyName="my-key-pair", KeyType="ed25519")
    key = home / ".ssh/my-key-pair.pem"
    key.parent.mkdir(mode=0o700)
    key.touch(mode=0o600)
    key.write_text(pair["KeyMaterial"])
    (home / ".ssh/config").write_text(CONFIGURATION.format(home=home))
    script = home / "bin/ssh"
    script.parent.mkdir()
    script.write_text(SSH.format(ssh=tool("ssh", "apt-get install openssh-client")))
    script.chmod(stat.S_IRWXU)
    group = ec2.create_security_group(GroupName="mine", Description="22, 443 and 80")["GroupId"]
    return {"ami-id": ec2_stand_in.UBUNTU, "security-group-id": group}


@pytest.fixture(scope="module")
def credentials(reader: Reader) -> dict[str, str]:
    """What the credentials file says to somebody who logs in as the README has it."""
    reader.machine.wait_ready()
    told = dict(re.findall(r"^(INFINITY_\w+)=(.*)$", reader.type(LOG_IN), re.MULTILINE))
    # AWS's name servers know it; a local machine has none to ask.
    name = f"{reader.values['public-ip']} {told['INFINITY_HOST']}"
    reader.machine.exec(f"echo '{name}' >>/etc/hosts")
    return told


def test_who_logs_in_reads_the_credentials(reader: Reader, credentials: dict[str, str]) -> None:
    assert credentials["INFINITY_HOST"].startswith(
        f"ec2-{reader.values['public-ip'].replace('.', '-')}."
    )
    assert credentials["INFINITY_API_KEY"] == reader.machine.credential("INFINITY_API_KEY")


def test_the_call_gets_an_embedding(reader: Reader, credentials: dict[str, str]) -> None:
    assert '"embedding":[' in reader.type_there(call(credentials))


def call(credentials: dict[str, str]) -> str:
    """The README's call with what the file says in it (an image may have another model)."""
    text = CALL.replace(guide.DOCUMENTED_MODEL, credentials["INFINITY_MODEL"])
    for name, value in credentials.items():
        text = text.replace(f"<{name}>", value)
    return text


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("Bearer", "Basic"), ("/v1/embeddings", "/v1/embedding"), ("--cacert", "--capath"),
     ('"input"', '"inputs"')],
)  # fmt: skip
def test_a_wrong_call_is_noticed(
    reader: Reader, credentials: dict[str, str], right: str, wrong: str
) -> None:
    assert right in CALL
    assert '"embedding":[' not in reader.type_there(call(credentials).replace(right, wrong))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("my-key-pair.pem", "my-key.pem"), ("ubuntu@", "admin@"),
     ("sudo cat", "cat"), ("credentials.txt", "credentials")],
)  # fmt: skip
def test_a_wrong_way_in_is_noticed(
    reader: Reader, credentials: dict[str, str], right: str, wrong: str
) -> None:
    assert right in LOG_IN
    assert credentials["INFINITY_API_KEY"] not in reader.type(LOG_IN.replace(right, wrong))
