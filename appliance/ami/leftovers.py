"""Everything a build has made at AWS, found by its tag and names, and removed."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.ami.plan import BUILD_TAG, Plan

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_ec2.type_defs import FilterTypeDef

ALIVE = ["pending", "running", "shutting-down", "stopping", "stopped"]


def remove(plan: Plan, ec2: EC2Client, *, keep_image: bool) -> list[str]:
    """Remove instances, key pairs, security groups and, unless it is kept, the AMI.

    One that cannot be removed does not keep the others. A second Ctrl-C has to wait.

    Returns:
        What is still there, one sentence each; nothing when all went well.
    """
    left: list[str] = []
    with _no_interrupts():
        steps = [_instances, _key_pairs, _groups] if keep_image else [
            _instances, _images, _snapshots, _key_pairs, _groups]  # fmt: skip
        for step in steps:
            try:
                step(plan, ec2)
            except Exception as error:  # noqa: BLE001 - whatever it was, the rest must go too
                left.append(f"{step.__name__.strip('_').replace('_', ' ')}: {error}")
    return left


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _tagged(plan: Plan) -> list[FilterTypeDef]:
    return [{"Name": f"tag:{BUILD_TAG}", "Values": [plan.build_id]}]


def _instances(plan: Plan, ec2: EC2Client) -> None:
    filters: list[FilterTypeDef] = [
        *_tagged(plan),
        {"Name": "instance-state-name", "Values": ALIVE},
    ]
    pages = ec2.get_paginator("describe_instances").paginate(Filters=filters)
    ids = [
        instance["InstanceId"]
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
    ]
    if ids:
        ec2.terminate_instances(InstanceIds=ids)
        ec2.get_waiter("instance_terminated").wait(InstanceIds=ids)


def _images(plan: Plan, ec2: EC2Client) -> None:
    """By name as well: an image that was just made may have no tag yet."""
    by_name: list[FilterTypeDef] = [{"Name": "name", "Values": [plan.name]}]
    for filters in (by_name, _tagged(plan)):
        for image in ec2.describe_images(Owners=["self"], Filters=filters)["Images"]:
            disks = image.get("BlockDeviceMappings", [])
            ec2.deregister_image(ImageId=image["ImageId"])
            for disk in disks:
                if snapshot := disk.get("Ebs", {}).get("SnapshotId"):
                    ec2.delete_snapshot(SnapshotId=snapshot)


def _snapshots(plan: Plan, ec2: EC2Client) -> None:
    found = ec2.describe_snapshots(OwnerIds=["self"], Filters=_tagged(plan))
    for snapshot in found["Snapshots"]:
        ec2.delete_snapshot(SnapshotId=snapshot["SnapshotId"])


def _key_pairs(plan: Plan, ec2: EC2Client) -> None:
    names: list[FilterTypeDef] = [{"Name": "key-name", "Values": [f"{plan.temporary}*"]}]
    for pair in ec2.describe_key_pairs(Filters=names)["KeyPairs"]:
        ec2.delete_key_pair(KeyName=pair["KeyName"])


def _groups(plan: Plan, ec2: EC2Client) -> None:
    for group in ec2.describe_security_groups(Filters=_tagged(plan))["SecurityGroups"]:
        ec2.delete_security_group(GroupId=group["GroupId"])
