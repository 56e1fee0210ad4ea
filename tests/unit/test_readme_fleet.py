"""The README's "Run a fleet" and all of docs/fleet.md, followed word for word against moto.

The commands are AWS's own command line's. moto's CloudFormation makes the stacks; what it does not
refuse and AWS does, and the one call it lacks, is in moto_stacks.py.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import moto_stacks
import moto_support
import pytest
from lint_tools import REPO
from moto_support import REGION
from readme_reader import blocks, filled, typed

from appliance import fleet
from appliance.fleet import parsed

README, PAGE = ("README.md", "## Run a fleet"), ("docs/fleet.md", "# A fleet")
DEPLOY, KEY, BOTH, NEW, REFRESH = blocks(*PAGE)


@dataclass
class Reader:
    """Somebody with an account, a checkout and what the console shows of the former."""

    folder: Path
    values: dict[str, str]
    refreshed: list[str]

    def type(self, block: str) -> subprocess.CompletedProcess[str]:
        return typed(filled(block, self.values), self.folder)

    def follow(self, block: str) -> str:
        """Type a block that has to work; returns what it printed."""
        assert unknown_parameters(block) == set()
        done = self.type(block)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def secret(self) -> fleet.Shared:
        told = (
            boto3.Session()
            .client("secretsmanager", region_name=REGION)
            .get_secret_value(SecretId=self.values["SharedSecret"])
        )
        return parsed(told["SecretString"])


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    with moto_support.moto_ec2(monkeypatch):
        moto_stacks.forget()
        refreshed = moto_stacks.teach(monkeypatch)
        (tmp_path / "cloudformation").symlink_to(REPO / "cloudformation")
        yield Reader(tmp_path, account(), refreshed)
        moto_stacks.forget()


def account() -> dict[str, str]:
    """What a reader has before reading."""
    ec2 = boto3.Session().client("ec2", region_name=REGION)
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnets = ec2.describe_subnets()["Subnets"]
    ec2.create_key_pair(KeyName="my-key-pair")
    name = "embeddings.example.com"
    certificate = (
        boto3.Session().client("acm", region_name=REGION).request_certificate(DomainName=name)
    )
    zone = (
        boto3.Session()
        .client("route53", region_name=REGION)
        .create_hosted_zone(Name="example.com", CallerReference="x")
    )
    return {
        "ami-id": "ami-0ubuntu0000000000",
        "vpc-id": vpc,
        "subnet-id": subnets[0]["SubnetId"],
        "subnet-in-another-zone": subnets[1]["SubnetId"],
        "your-network": "10.0.0.0/16",
        "your-address": "203.0.113.7",
        "your-dns-name": name,
        "hosted-zone-id": zone["HostedZone"]["Id"].rpartition("/")[2],
        "certificate-arn": certificate["CertificateArn"],
    }


def unknown_parameters(block: str) -> set[str]:
    """Those that the template has not: AWS's command line leaves them out without a word."""
    found = re.search(r"--template-file (\S+)(.*)", block, re.DOTALL)
    named = set(re.findall(r"\b([A-Z]\w+)=", found[2])) if found else set()
    return {
        name for name in named if found and f"\n  {name}:\n" not in (REPO / found[1]).read_text()
    }


def instances() -> list[Any]:
    ec2 = boto3.Session().client("ec2", region_name=REGION)
    found = ec2.describe_instances()["Reservations"]
    return [instance for each in found for instance in each["Instances"]]


def rules(description: str) -> set[tuple[int, str]]:
    """(port, network) of a security group."""
    ec2 = boto3.Session().client("ec2", region_name=REGION)
    (group,) = ec2.describe_security_groups(
        Filters=[{"Name": "description", "Values": [description]}]
    )["SecurityGroups"]
    return {
        (rule["FromPort"], network["CidrIp"])
        for rule in group["IpPermissions"]
        for network in rule["IpRanges"]
    }


def test_the_readmes_commands_make_a_fleet_and_one_instance(reader: Reader) -> None:
    a_fleet, one = blocks(*README)
    reader.follow(a_fleet)
    assert len(instances()) == 2
    reader.follow(one)
    (single,) = [each for each in instances() if each.get("KeyName") == "my-key-pair"]
    assert single["InstanceType"] == "m5.large"
    assert rules("Infinity embeddings API") == {
        (443, "10.0.0.0/16"),
        (80, "10.0.0.0/16"),
        (22, "203.0.113.7/32"),
    }


def test_the_page_is_followed_from_the_first_command_to_the_last(reader: Reader) -> None:
    launched(reader)
    before = reader.secret().api_keys
    reader.values["old-key"] = json.loads(reader.follow(KEY))["api_key"]
    assert before == (("unnamed", reader.values["old-key"]),)
    reader.follow(BOTH)
    new, old = (key for name, key in reader.secret().api_keys if name == "search")
    assert old == reader.values["old-key"]
    assert new != old
    assert {oct(path.stat().st_mode & 0o77) for path in reader.folder.glob("*-key*.json")} == {
        "0o0"
    }
    reader.follow(NEW)
    assert reader.secret().api_keys == (("search", new),)
    assert list(reader.folder.glob("*.json")) == []
    reader.follow(REFRESH)
    assert reader.refreshed == [reader.values["Group"]]


def launched(reader: Reader) -> None:
    """The stack, with the reader's values; its outputs are values from then on."""
    told = reader.follow(DEPLOY)
    lines = [line.split("\t") for line in told.splitlines() if "\t" in line]
    reader.values.update({line[0]: line[1] for line in lines})
    assert reader.values["Url"] == "https://embeddings.example.com/"
    (group,) = (
        boto3.Session()
        .client("autoscaling", region_name=REGION)
        .describe_auto_scaling_groups()["AutoScalingGroups"]
    )
    assert (group["MinSize"], group["MaxSize"], len(group["Instances"])) == (2, 4, 2)
    assert {each["InstanceType"] for each in instances()} == {"c6i.xlarge"}
    balancers = boto3.Session().client("elbv2", region_name=REGION)
    (listener,) = balancers.describe_listeners(
        LoadBalancerArn=balancers.describe_load_balancers()["LoadBalancers"][0]["LoadBalancerArn"]
    )["Listeners"]
    assert listener["Certificates"] == [{"CertificateArn": reader.values["certificate-arn"]}]


MUTATIONS = [
    (" --capabilities CAPABILITY_IAM", ""),
    ("fleet.yaml", "flat.yaml"),
    ("ImageId=", "ImageID="),
    ("VpcId=<vpc-id>", ""),
    ("MinSize=", "MinimumSize="),
    ("CertificateArn=<certificate-arn>", "CertificateArn=<vpc-id>"),
    ("cloudformation deploy", "cloudformation deploi"),
    ("describe-stacks --stack-name infinity-fleet", "describe-stacks --stack-name infinity"),
    ("OutputValue", "Value"),
]


@pytest.mark.parametrize(("right", "wrong"), MUTATIONS)
def test_a_wrong_command_to_launch_is_noticed(reader: Reader, right: str, wrong: str) -> None:
    assert right in DEPLOY
    spoiled = DEPLOY.replace(right, wrong)
    with pytest.raises((AssertionError, OSError)):
        assert "SharedSecret\tarn:" in reader.follow(spoiled)


def test_a_wrong_command_to_rotate_is_noticed(reader: Reader) -> None:
    launched(reader)
    reader.values["old-key"] = json.loads(reader.follow(KEY))["api_key"]
    before = reader.secret()
    for right, wrong in (
        ("put-secret-value", "put-secret"),
        ("file://both-keys.json", "file://keys.json"),
        ("rand -hex", "rand -x"),
        ("<SharedSecret>", "<Group>"),
    ):
        assert right in BOTH
        assert reader.type(BOTH.replace(right, wrong)).returncode != 0
        assert reader.secret() == before
    assert reader.type(REFRESH.replace("<Group>", "<SharedSecret>")).returncode != 0
