"""Members of a fleet: machines with the stack's own user data, and what may happen to them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

from appliance.run import run
from machine import cgroups, names, pids
from machine.build import Image, build
from machine.instance import Machine
from machine.names import CHECKOUT
from tests.fleet.secret import ROLE_METADATA, Secret

HOST = "embeddings.example.com"
TEMPLATE = CHECKOUT / "cloudformation/fleet.yaml"


@dataclass
class Group:
    """An Auto Scaling group's hardware."""

    secret: Secret
    prefix: str
    image: Image = field(default_factory=build)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    members: list[Machine] = field(default_factory=list)

    def launch(self) -> Machine:
        """Boot one more, without waiting for its model."""
        name = f"{self.prefix}-{next(self.numbers)}"
        Machine(names.place(name)).down()  # what an interrupted run left
        metadata = {**ROLE_METADATA, "user-data": user_data(TEMPLATE.read_text(), self.secret)}
        machine = Machine.up(name, metadata, wait=False, image=self.image)
        self.members.append(machine)
        _route(machine, self.secret.address)
        return machine

    def terminate(self, machine: Machine) -> None:
        self.members.remove(machine)
        machine.down()

    def down(self) -> None:
        for machine in list(self.members):
            self.terminate(machine)


@contextmanager
def group(secret: Secret, prefix: str) -> Iterator[Group]:
    """None at first; what is left in the end is taken down."""
    made = Group(secret, prefix)
    try:
        yield made
    finally:
        made.down()


def user_data(template: str, secret: Secret) -> str:
    """What the template has the launch template say, and where Secrets Manager is here."""
    _, _, after = template.partition("Fn::Base64: !Sub |\n")
    said = textwrap.dedent(after.partition("\n\n")[0]) + "\n"
    named = f"FLEET_SECRET_ARN={secret.arn}\nAWS_ENDPOINT_URL_SECRETS_MANAGER={secret.endpoint}\n"
    return said.replace("${HostName}", HOST).replace(
        "'FLEET_SECRET_ARN=${SharedSecret}'", json.dumps(named)
    )


def cut_power(machine: Machine) -> None:
    """Everything on it ends at once, and its address falls silent: no reset, no refusal."""
    address, place = machine.address, machine.place
    run(["ip", "-n", place.router, "route", "replace", "blackhole", f"{address}/32"])
    run(["ip", "-n", place.inside, "link", "set", "host0", "down"])
    pids.kill(place.supervisor)
    cgroups.kill(place)


def _route(machine: Machine, address: str) -> None:
    """From the machine to an address of this computer's; it goes with the machine."""
    gateway = f"{machine.address.rpartition('.')[0]}.130"
    run(["ip", "-n", machine.place.router, "route", "replace", f"{address}/32", "via", gateway])
