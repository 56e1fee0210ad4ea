"""EC2 for tests: moto's server in this process, with what it does not know of AMIs added."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest
from moto.core.responses import ActionResult
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.responses.amis import AmisResponse
from moto.server import ThreadedMotoServer

REGION = "us-east-1"
ACCOUNT = "123456789012"
UBUNTU = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260901"
CANONICAL = "099720109477"


@contextmanager
def moto_ec2(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with an account that has nothing but Canonical's Ubuntu to choose; its URL."""
    backend = _fresh_backend()
    ubuntu = Ami(
        backend,
        "ami-0ubuntu0000000000",
        owner_id=CANONICAL,
        name=UBUNTU,
        architecture="x86_64",
        virtualization_type="hvm",
        root_device_type="ebs",
        root_device_name="/dev/sda1",
        state="available",
    )
    backend.amis[ubuntu.id] = ubuntu
    _teach(patch)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line a request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    environment = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }
    for name, value in environment.items():
        patch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_EC2"):
        patch.delenv(name, raising=False)
    try:
        yield url
    finally:
        server.stop()


def _fresh_backend() -> EC2Backend:
    backend: EC2Backend = ec2_backends[ACCOUNT][REGION]
    backend.reset()
    backend.amis.clear()
    for snapshot in list(backend.snapshots):
        backend.snapshots.pop(snapshot)
    return backend


def _teach(patch: pytest.MonkeyPatch) -> None:
    """EnaSupport and ImdsSupport of an AMI, and that what CreateImage makes is on EBS."""
    patch.setattr(Ami, "ena_support", True, raising=False)
    patch.setattr(Ami, "imds_support", None, raising=False)
    made: Any = Ami.__init__

    def on_ebs(self: Ami, *words: object, **named: object) -> None:
        made(self, *words, **named)
        self.root_device_type = "ebs"

    patch.setattr(Ami, "__init__", on_ebs)
    known = AmisResponse.modify_image_attribute

    def modify(self: AmisResponse) -> ActionResult:
        if wanted := self._get_param("ImdsSupport", {}).get("Value"):
            self.ec2_backend.amis[self._get_param("ImageId")].imds_support = wanted
        done: ActionResult = known(self)
        return done

    patch.setattr(AmisResponse, "modify_image_attribute", modify)


def everything() -> dict[str, list[str]]:
    """What the account has, by kind, apart from what each account starts with."""
    # boto3.client() would go on with the session, and so the credentials, of an earlier test.
    ec2 = boto3.Session().client("ec2", region_name=REGION)
    instances = [
        instance["InstanceId"]
        for reservation in ec2.describe_instances()["Reservations"]
        for instance in reservation["Instances"]
        if instance["State"]["Name"] != "terminated"
    ]
    images = [image["ImageId"] for image in ec2.describe_images(Owners=["self"])["Images"]]
    canonical = ec2_backends[ACCOUNT][REGION].amis["ami-0ubuntu0000000000"].ebs_snapshot.id
    snapshots = [
        snapshot["SnapshotId"]
        for snapshot in ec2.describe_snapshots(OwnerIds=["self"])["Snapshots"]
        if snapshot["SnapshotId"] != canonical
    ]
    keys = [pair["KeyName"] for pair in ec2.describe_key_pairs()["KeyPairs"]]
    groups = [
        group["GroupName"]
        for group in ec2.describe_security_groups()["SecurityGroups"]
        if group["GroupName"] != "default"
    ]
    found = {
        "instances": instances,
        "images": images,
        "snapshots": snapshots,
        "key pairs": keys,
        "security groups": groups,
    }
    return {kind: names for kind, names in found.items() if names}
