"""What has to be true before anything is made; everything is asked, nothing is changed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from appliance.ami.plan import MARKETPLACE_REGION, REPO, Plan, explain
from appliance.errors import ApplianceError
from appliance.run import run

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client

OLDEST_PACKER = (1, 6, 6)


def check(plan: Plan, ec2: EC2Client) -> None:
    """Raise ApplianceError for the first thing that would make the build fail later.

    Credentials that work in the region, EBS encryption by default off (Marketplace refuses
    encrypted snapshots, and encrypt_boot = false cannot override it), no AMI of that name, a
    Packer that is there, a commit without changes beside it.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    check_region(plan.region)
    packer_version()
    check_checkout()
    try:
        encrypted = ec2.get_ebs_encryption_by_default()["EbsEncryptionByDefault"]
        same_name = ec2.describe_images(
            Owners=["self"], Filters=[{"Name": "name", "Values": [plan.name]}]
        )["Images"]
    except (BotoCoreError, ClientError) as error:
        raise explain(error, "checking the account") from error
    if encrypted:
        raise ApplianceError(
            f"EBS encryption by default is on in {plan.region}: the snapshot would be encrypted, "
            "and AWS Marketplace refuses that.",
            "Switch it off for the build: aws ec2 disable-ebs-encryption-by-default.",
        )
    if same_name:
        raise ApplianceError(
            f"There is an AMI {plan.name} already: {same_name[0].get('ImageId')}.",
            "Deregister it, or build again under another id.",
        )


def check_region(region: str) -> None:
    if region != MARKETPLACE_REGION:
        raise ApplianceError(
            f"The region is {region or 'not set'}, and AWS Marketplace takes AMIs from "
            f"{MARKETPLACE_REGION} only.",
            f"Set AWS_REGION={MARKETPLACE_REGION}.",
        )


def check_checkout() -> None:
    """What is not committed would not be in the image."""
    git = ("git", "-c", "safe.directory=*", "-C", REPO)
    changed = run([*git, "status", "--porcelain", "--untracked-files=no"]).stdout.strip()
    if changed:
        raise ApplianceError(
            f"{len(changed.splitlines())} files differ from the commit, and the AMI is built from "
            "the commit.",
            "Commit or stash them first.",
        )


def packer_version() -> tuple[int, ...]:
    """Such as (1, 11, 2).

    Raises:
        ApplianceError: there is no Packer, or one that is too old.
    """
    hint = "Install it: https://developer.hashicorp.com/packer/install, or apt-get install packer."
    if shutil.which("packer") is None:
        raise ApplianceError("Packer is not installed.", hint)
    said = run(["packer", "version"], hint=hint).stdout.split()
    version = next((word for word in said if word.startswith("v")), "v0")
    numbers = tuple(int(part) for part in version[1:].split("-")[0].split(".") if part.isdigit())
    if numbers < OLDEST_PACKER:
        raise ApplianceError(f"Packer {version} is too old.", hint)
    return numbers
