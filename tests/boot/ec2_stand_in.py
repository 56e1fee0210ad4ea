"""EC2 whose instances are local machines: moto keeps the books, machine/ has the hardware.

An instance that is run boots a machine from its AMI's disk, with moto's ids and addresses in its
metadata and the key pair's public half; its public address (TEST-NET-2, RFC 5737) is routed to it
on this host. Stopping powers it off, an AMI made from it is a copy of what its disk holds then.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import moto.ec2.models.elastic_network_interfaces as interfaces
import pytest
from moto.ec2.models import EC2Backend

from appliance.run import run
from machine import local_config, names
from machine.build import Image
from machine.instance import Machine

PREFIX = "ami-"
UBUNTU = "ami-0ubuntu0000000000"


@dataclass
class Hardware:
    """Machines by instance id and disks by AMI id.

    Attributes:
        source: what an instance of Canonical's AMI boots.
        inputs: layers of ``source`` that are no part of an image made from it.
        folder: where captured disks are kept.
    """

    source: Image
    inputs: tuple[Path, ...]
    folder: Path
    machines: dict[str, Machine] = field(default_factory=dict)
    disks: dict[str, Image] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def image(self, ami: str) -> Image:
        return self.source if ami == UBUNTU else self.disks[ami]

    def boot(self, instance: Any, key: str | None) -> None:  # noqa: ANN401 - moto's own class
        name = f"{PREFIX}{next(self.numbers)}"
        Machine(names.place(name)).down()  # what an interrupted run left
        dashed = instance.public_ip.replace(".", "-")
        machine = Machine.up(
            name,
            {
                "instance-id": instance.id,
                "public-ipv4": instance.public_ip,
                "public-hostname": f"ec2-{dashed}.compute-1.amazonaws.com",
                "public-keys": [key] if key else [],
            },
            image=self.image(instance.image_id),
            wait=False,
        )
        self.machines[instance.id] = machine
        _route(machine, instance.public_ip)

    def stop(self, instance_id: str) -> None:
        self.machines[instance_id].stop()

    def capture(self, instance_id: str, ami: str) -> None:
        """What the disk holds, without what only this computer put there."""
        machine = self.machines[instance_id]
        disk = self.folder / ami
        run(["cp", "--archive", machine.place.upper, disk], timeout=None)
        for name in local_config.FILES:
            (disk / name).unlink(missing_ok=True)
        kept = tuple(layer for layer in machine.record.layers if Path(layer) not in self.inputs)
        layers = (*map(Path, kept), disk)
        self.disks[ami] = Image(layers, ami, self.source.suite, self.source.model)

    def terminate(self, instance_id: str) -> None:
        if machine := self.machines.pop(instance_id, None):
            machine.down()

    def down(self) -> None:
        for instance_id in list(self.machines):
            self.terminate(instance_id)
        shutil.rmtree(self.folder, ignore_errors=True)


def _route(machine: Machine, address: str) -> None:
    """Have the address lead to the machine, on this host only; it goes with the machine."""
    network = f"10.213.{machine.record.index}"
    place = machine.place
    run(["ip", "-n", place.inside, "addr", "replace", f"{address}/32", "dev", "host0"])
    run(["ip", "-n", place.router, "route", "replace", f"{address}/32", "dev", "inner"])
    run(["ip", "route", "replace", f"{address}/32", "via", f"{network}.129"])


@contextmanager
def attached(hardware: Hardware, patch: pytest.MonkeyPatch) -> Iterator[Hardware]:
    """While the body runs, moto's instances are machines; calls return when it is done."""
    add, stop = EC2Backend.run_instances, EC2Backend.stop_instances
    terminate, create = EC2Backend.terminate_instances, EC2Backend.create_image
    addresses = count(1)
    patch.setattr(interfaces, "random_public_ip", lambda: f"198.51.100.{next(addresses)}")

    def run_instances(self: EC2Backend, *words: Any, **named: Any) -> Any:  # noqa: ANN401
        made = add(self, *words, **named)
        for instance in made.instances:
            pair = self.key_pairs.get(named.get("key_name") or "")
            hardware.boot(instance, pair.material_public.decode().strip() if pair else None)
        return made

    def stop_instances(self: EC2Backend, ids: list[str]) -> Any:  # noqa: ANN401
        for instance_id in ids:
            hardware.stop(instance_id)
        return stop(self, ids)

    def terminate_instances(self: EC2Backend, ids: list[str]) -> Any:  # noqa: ANN401
        done = terminate(self, ids)
        for instance_id in ids:
            hardware.terminate(instance_id)
        return done

    def create_image(self: EC2Backend, instance_id: str, *words: Any, **named: Any) -> Any:  # noqa: ANN401
        made = create(self, instance_id, *words, **named)
        hardware.capture(instance_id, made.id)
        return made

    patch.setattr(EC2Backend, "run_instances", run_instances)
    patch.setattr(EC2Backend, "stop_instances", stop_instances)
    patch.setattr(EC2Backend, "terminate_instances", terminate_instances)
    patch.setattr(EC2Backend, "create_image", create_image)
    try:
        yield hardware
    finally:
        hardware.down()
