"""What one build of the AMI is about to make, and the AWS clients that it uses."""

from __future__ import annotations

import os
import secrets
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError
from appliance.run import run

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_ec2.type_defs import TagTypeDef

REPO = Path(__file__).resolve().parents[2]
MARKETPLACE_REGION = "us-east-1"
MARKETPLACE_ACCOUNT = "679593333241"
BUILD_TAG = "infinity:build"


@dataclass(frozen=True)
class Plan:
    """One build.

    Attributes:
        version: of the product.
        commit: of the tarball that is provisioned from.
        region: where it is built.
        ssh_cidr: from where the instances may be reached, such as 203.0.113.7/32.
        build_id: tags and names everything that this build makes.
        out: the folder of its results.
        timeout: seconds for Packer.
    """

    version: str
    commit: str
    region: str
    ssh_cidr: str
    build_id: str
    out: Path
    timeout: float = 3600.0

    @property
    def name(self) -> str:
        """Of the AMI; packer/ami.pkr.hcl composes the same."""
        return f"infinity-{self.version}-ubuntu-24.04-amd64-{self.build_id}"

    @property
    def temporary(self) -> str:
        """Of the key pairs and groups that last as long as the build."""
        return f"infinity-build-{self.build_id}"

    @property
    def tags(self) -> list[TagTypeDef]:
        return [
            {"Key": BUILD_TAG, "Value": self.build_id},
            {"Key": "Name", "Value": self.temporary},
        ]


def plan(region: str, ssh_cidr: str, timeout: float) -> Plan:
    """The build of what is committed in this checkout.

    Raises:
        ApplianceError: the checkout is no git repository.
    """
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    hint = "The AMI is built from a commit: work in a clone."
    git = ("git", "-c", "safe.directory=*", "-C", REPO)
    commit = run([*git, "rev-parse", "HEAD"], hint=hint).stdout.strip()
    build_id = f"{commit[:8]}-{secrets.token_hex(3)}"
    out = REPO / "build/ami" / build_id
    return Plan(project["version"], commit, region, ssh_cidr, build_id, out, timeout)


def ec2(region: str) -> EC2Client:
    """A client by boto3's own configuration: environment, profile, role."""
    import boto3  # noqa: PLC0415 - slow to import, and the image's scanner needs none of it

    client: EC2Client = boto3.Session().client("ec2", region_name=region)
    return client


def endpoint() -> str:
    """Another EC2 endpoint that boto3 is told to use by the environment; "" for AWS's own."""
    return os.environ.get("AWS_ENDPOINT_URL_EC2") or os.environ.get("AWS_ENDPOINT_URL") or ""


def explain(error: Exception, doing: str) -> ApplianceError:
    """An error of botocore's as ours: what was being done, and what AWS said."""
    from botocore import exceptions  # noqa: PLC0415

    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return ApplianceError(
            f"AWS cannot be asked while {doing}: there are no credentials.",
            "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    return ApplianceError(f"AWS refused while {doing}: {error}", "Nothing is left behind.")
