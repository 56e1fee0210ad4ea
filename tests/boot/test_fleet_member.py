"""An instance that user data makes one of a fleet: the shared secret, and nothing of its own.

Secrets Manager is moto's server on this computer's end of the machine's network; the role's
credentials come from the metadata emulator. Both speak AWS's protocols.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import probe
import pytest

from machine import names
from machine.instance import Machine
from tests.fleet.secret import ROLE_METADATA, client, secrets_manager

pytestmark = pytest.mark.boot

KEY, NEW_KEY = "inf-" + "0a1b2c3d" * 6, "inf-" + "4e5f6a7b" * 6
LET_IN = {200, 503}  # 503: the model is still loading
USER_DATA = """#cloud-config
write_files:
  - path: /etc/infinity/fleet.env
    content: |
      FLEET_SECRET_ARN={arn}
      AWS_ENDPOINT_URL_SECRETS_MANAGER={endpoint}
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    Machine(names.place("test-member")).down()
    try:
        made = Machine.up("test-member", wait=False)
        probe.gate_up(made)
        yield made
    finally:
        Machine(names.place("test-member")).down()


def status(machine: Machine, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return probe.request(machine, "/models", host=host(machine), headers=headers).status_code


def host(machine: Machine) -> str:
    return machine.credential("INFINITY_HOST")


def launch_into_fleet(machine: Machine, arn: str, endpoint: str) -> None:
    """A copy of the instance, launched with a role and user data."""
    machine.metadata["instance-id"] = "i-0fleet"
    machine.metadata.update(ROLE_METADATA)
    machine.metadata["user-data"] = USER_DATA.format(arn=arn, endpoint=endpoint)
    machine.reboot(wait=False)


def on_disk(machine: Machine, secret: str) -> str:
    """Where the secret is found on the disk or in the journal."""
    search = (
        "cat >/run/sought; grep -rlIF --devices=skip -f /run/sought "
        "/boot /etc /home /opt /root /srv /var; grep -rlaF -f /run/sought /var/log/journal; "
        "journalctl --no-pager | grep -F -f /run/sought; rm /run/sought"
    )
    return machine.exec(search, secret).stdout


def test_a_member_serves_with_the_fleets_key_alone_and_follows_it(machine: Machine) -> None:
    own = probe.credentials(machine)
    address = machine.address.rpartition(".")[0] + ".130"
    with secrets_manager(address) as endpoint:
        aws = client(endpoint)
        arn = aws.create_secret(Name="fleet", SecretString=json.dumps({"api_key": KEY}))["ARN"]
        launch_into_fleet(machine, arn, endpoint)
        probe.gate_up(machine)
        assert status(machine, KEY) in LET_IN
        assert status(machine, own.api_key) == probe.REFUSED
        assert on_disk(machine, KEY) == ""
        aws.put_secret_value(SecretId=arn, SecretString=json.dumps({"api_key": NEW_KEY}))
        machine.exec("infinity-fleet-sync")
        assert status(machine, KEY) == probe.REFUSED
        assert status(machine, NEW_KEY) in LET_IN
        assert on_disk(machine, NEW_KEY) == ""
        refused = machine.exec("infinity-api-key add own", check=False)
        assert refused.returncode == 1
    machine.reboot(wait=False)
    probe.eventually(
        lambda: probe.show(machine, "infinity-fleet", "NRestarts") not in {"", "0"},
        "a second attempt to read the secret",
    )
    assert probe.state(machine, "nginx") != "active", "it must not serve with keys of its own"
    assert not probe.open_port(machine, 443)
    with secrets_manager(address, int(endpoint.rpartition(":")[2])):
        probe.gate_up(machine)
        assert status(machine, NEW_KEY) in LET_IN
