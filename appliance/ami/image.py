"""The AMI after Packer: what Packer may not know is set, then every rule for it is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from appliance.ami.plan import MARKETPLACE_ACCOUNT, Plan
from appliance.errors import ApplianceError

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

WANTED = {
    "State": "available",
    "Architecture": "x86_64",
    "VirtualizationType": "hvm",
    "RootDeviceType": "ebs",
    "EnaSupport": True,
    "ImdsSupport": "v2.0",
}


def finish(plan: Plan, ec2: EC2Client, image: str) -> None:
    """Set ImdsSupport (it cannot be taken back), permissions and tags; again changes nothing."""
    ec2.get_waiter("image_available").wait(ImageIds=[image])
    ec2.modify_image_attribute(ImageId=image, ImdsSupport={"Value": "v2.0"})
    ec2.modify_image_attribute(
        ImageId=image, LaunchPermission={"Add": [{"UserId": MARKETPLACE_ACCOUNT}]}
    )
    for snapshot in snapshots(describe(ec2, image)):
        ec2.modify_snapshot_attribute(
            SnapshotId=snapshot,
            Attribute="createVolumePermission",
            OperationType="add",
            UserIds=[MARKETPLACE_ACCOUNT],
        )
        ec2.create_tags(Resources=[snapshot], Tags=plan.tags)


def describe(ec2: EC2Client, image: str) -> Mapping[str, Any]:
    return ec2.describe_images(ImageIds=[image])["Images"][0]


def snapshots(described: Mapping[str, Any]) -> list[str]:
    """The ids of the disks' snapshots."""
    disks = (disk.get("Ebs", {}) for disk in described.get("BlockDeviceMappings", []))
    return [disk["SnapshotId"] for disk in disks if "SnapshotId" in disk]


def check(ec2: EC2Client, image: str) -> None:
    """Raise ApplianceError that names every rule of AWS Marketplace which the AMI breaks."""
    described = describe(ec2, image)
    ids = snapshots(described)
    disks = ec2.describe_snapshots(SnapshotIds=ids)["Snapshots"] if ids else []
    launch = ec2.describe_image_attribute(ImageId=image, Attribute="launchPermission")
    users = [entry.get("UserId", "") for entry in launch.get("LaunchPermissions", [])]
    groups = [entry.get("Group", "") for entry in launch.get("LaunchPermissions", [])]
    shared = {snapshot: _shared(ec2, snapshot) for snapshot in ids}
    if broken := rules(described, disks, users, groups, shared):
        raise ApplianceError(
            f"{image} breaks {len(broken)} rules: {'; '.join(broken)}.", "It has been removed."
        )


def _shared(ec2: EC2Client, snapshot: str) -> list[str]:
    said = ec2.describe_snapshot_attribute(SnapshotId=snapshot, Attribute="createVolumePermission")
    return [entry.get("UserId", "") for entry in said.get("CreateVolumePermissions", [])]


def rules(
    described: Mapping[str, Any],
    disks: Sequence[Mapping[str, Any]],
    users: Sequence[str],
    groups: Sequence[str],
    shared: Mapping[str, Sequence[str]],
) -> list[str]:
    """What is broken, a phrase each.

    Args:
        described: the AMI, as describe_images tells it.
        disks: its snapshots, as describe_snapshots tells them.
        users: accounts that may launch it.
        groups: groups that may launch it.
        shared: snapshot -> accounts that may make a volume of it.
    """
    broken = [
        f"{key} is {described.get(key, 'not set')}, not {wanted}"
        for key, wanted in WANTED.items()
        if described.get(key) != wanted
    ]
    text = f"{described.get('Name', '')}{described.get('Description', '')}"
    if not text.isascii():
        broken.append("its name or description is not ASCII")
    if described.get("ProductCodes"):
        broken.append("it carries another product's code")
    if not disks:
        broken.append("it has no snapshot")
    broken += [f"{disk['SnapshotId']} is encrypted" for disk in disks if disk.get("Encrypted")]
    if MARKETPLACE_ACCOUNT not in users:
        broken.append(f"account {MARKETPLACE_ACCOUNT} may not launch it")
    if "all" in groups:
        broken.append("anybody may launch it")
    for snapshot, accounts in shared.items():
        if MARKETPLACE_ACCOUNT not in accounts:
            broken.append(f"account {MARKETPLACE_ACCOUNT} may not read {snapshot}")
    return broken
