"""The AMI's build against moto: what it makes, and that every way it can fail leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import moto_support
import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError
from botocore.httpsession import URLLib3Session
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.amis import Ami
from moto.ec2.responses import EC2Response
from moto_support import ACCOUNT, CANONICAL, REGION, everything

from appliance.ami import acceptance, build, image, preconditions
from appliance.ami.plan import BUILD_TAG, MARKETPLACE_ACCOUNT, REPO, Plan
from appliance.errors import ApplianceError

BUILD_ID = "0123abcd-x1"


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty account; the checkout of the test run counts as committed, Packer as there."""
    monkeypatch.setattr(preconditions, "check_checkout", lambda: None)
    monkeypatch.setattr(preconditions, "packer_version", lambda: (1, 6, 6))
    with moto_support.moto_ec2(monkeypatch) as url:
        yield url


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as on a terminal, also where a shell's background runs the tests and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan("1.2.3", "0" * 40, REGION, "203.0.113.7/32", BUILD_ID, tmp_path)


def packed(plan: Plan) -> str:
    """What Packer leaves when it was killed after the AMI: everything."""
    ec2 = boto3.Session().client("ec2", region_name=plan.region)
    source = ec2.describe_images(Owners=[CANONICAL])["Images"][0]["ImageId"]
    ec2.create_key_pair(KeyName=plan.temporary)
    group = ec2.create_security_group(GroupName="packer_1", Description="x")["GroupId"]
    instance = ec2.run_instances(ImageId=source, MinCount=1, MaxCount=1)["Instances"][0]
    ec2.create_tags(Resources=[group, instance["InstanceId"]], Tags=plan.tags)
    made = ec2.create_image(InstanceId=instance["InstanceId"], Name=plan.name, Description="x")
    return str(made["ImageId"])


def launched(plan: Plan, client: object, made: str) -> None:
    """An acceptance that finds nothing wrong."""
    with acceptance.launched(plan, client, made) as instance:  # type: ignore[arg-type]
        assert instance.address
        assert instance.key.stat().st_mode & 0o077 == 0


def test_a_build_leaves_the_ami_its_snapshot_and_what_is_written_beside(plan: Plan) -> None:
    made = build.build(plan, packed, launched)
    left = everything()
    assert set(left) == {"images", "snapshots"}
    assert left["images"] == [made]
    assert len(left["snapshots"]) == 1
    written = json.loads((plan.out / "ami.json").read_text())
    assert (written["image"], written["commit"]) == (made, plan.commit)
    assert written["snapshots"] == left["snapshots"]


def test_the_ami_demands_imdsv2_and_is_shared_with_marketplace_alone(plan: Plan) -> None:
    made = build.build(plan, packed, launched)
    ec2 = boto3.Session().client("ec2", region_name=REGION)
    described = ec2.describe_images(ImageIds=[made])["Images"][0]
    assert described["ImdsSupport"] == "v2.0"
    launch = ec2.describe_image_attribute(ImageId=made, Attribute="launchPermission")
    assert launch["LaunchPermissions"] == [{"UserId": MARKETPLACE_ACCOUNT}]
    (snapshot,) = image.snapshots(described)
    shared = ec2.describe_snapshot_attribute(
        SnapshotId=snapshot, Attribute="createVolumePermission"
    )
    assert shared["CreateVolumePermissions"] == [{"UserId": MARKETPLACE_ACCOUNT}]


def test_the_instance_that_is_tried_is_reachable_from_the_builder_only(plan: Plan) -> None:
    opened: list[object] = []

    def look(plan: Plan, client: object, made: str) -> None:
        with acceptance.launched(plan, client, made):  # type: ignore[arg-type]
            ec2 = boto3.Session().client("ec2", region_name=REGION)
            (group,) = ec2.describe_security_groups(
                GroupNames=[f"{plan.temporary}-accept"])["SecurityGroups"]  # fmt: skip
            opened.extend(
                (rule["FromPort"], rule["ToPort"], [ip["CidrIp"] for ip in rule["IpRanges"]])
                for rule in group["IpPermissions"]
            )

    build.build(plan, packed, look)
    assert opened == [(22, 22, [plan.ssh_cidr]), (443, 443, [plan.ssh_cidr])]


# Every call between Packer and the end; those that the removal makes too fail once.
CALLS = [
    "modify_image_attribute",
    "modify_snapshot_attribute",
    "create_tags",
    "describe_image_attribute",
    "describe_snapshot_attribute",
    "describe_snapshots",
    "create_security_group",
    "authorize_security_group_ingress",
    "import_key_pair",
    "run_instances",
    "describe_instances",
    "describe_images",
]


@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_the_api_in_the_middle_leaves_nothing(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    known = getattr(EC2Response, call)
    failed: list[str] = []

    def packed_then_failing(plan: Plan) -> str:
        made = packed(plan)
        monkeypatch.setattr(EC2Response, call, fail)
        return made

    def fail(self: EC2Response) -> object:
        if failed:
            return known(self)
        failed.append(call)
        raise EC2ClientError("RequestLimitExceeded", "Injected.")

    with pytest.raises(ApplianceError, match=r"Injected|RequestLimitExceeded"):
        build.build(plan, packed_then_failing, launched)
    assert failed == [call]
    assert everything() == {}


def test_a_timeout_of_the_network_in_the_middle_leaves_nothing(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = URLLib3Session.send
    failed: list[str] = []

    def send(self: URLLib3Session, request: AWSPreparedRequest) -> object:
        if failed:
            return known(self, request)
        failed.append(str(request.url))
        raise ReadTimeoutError(endpoint_url=request.url)

    def packed_then_silent(plan: Plan) -> str:
        made = packed(plan)
        monkeypatch.setattr(URLLib3Session, "send", send)
        return made

    with pytest.raises(ApplianceError, match="Read timeout"):
        build.build(plan, packed_then_silent, launched)
    assert len(failed) == 1
    assert everything() == {}


def test_a_network_that_stays_away_is_told_with_what_may_be_left(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(_: URLLib3Session, request: AWSPreparedRequest) -> object:
        raise ConnectTimeoutError(endpoint_url=request.url)

    def packed_then_silent(plan: Plan) -> str:
        made = packed(plan)
        monkeypatch.setattr(URLLib3Session, "send", send)
        return made

    with pytest.raises(ApplianceError) as caught:
        build.build(plan, packed_then_silent, launched)
    for kind in ("instances", "images", "snapshots", "key pairs", "groups"):
        assert f"{kind}: Connect timeout" in caught.value.message
    assert "infinity:build" in caught.value.hint


def test_an_ami_that_ec2_gives_up_leaves_nothing(plan: Plan) -> None:
    def given_up(plan: Plan) -> str:
        made = packed(plan)
        ec2_backends[ACCOUNT][REGION].amis[made].state = "failed"
        return made

    with pytest.raises(ApplianceError, match="Waiter ImageAvailable failed"):
        build.build(plan, given_up, launched)
    assert everything() == {}


def test_an_instance_that_does_not_get_to_run_leaves_nothing(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = EC2Response.run_instances

    def run_instances(self: EC2Response) -> object:
        made = known(self)
        for instance in self.ec2_backend.all_instances():
            instance.terminate()
        return made

    def packed_then_full(plan: Plan) -> str:
        made = packed(plan)
        monkeypatch.setattr(EC2Response, "run_instances", run_instances)
        return made

    with pytest.raises(ApplianceError, match="Waiter InstanceRunning failed"):
        build.build(plan, packed_then_full, launched)
    assert everything() == {}


def _raise(error: BaseException) -> Callable[..., str]:
    def fail(*_: object) -> str:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [ApplianceError("Packer failed."), KeyboardInterrupt(), RuntimeError("a mistake")]
)
def test_whatever_ends_packer_leaves_nothing(plan: Plan, error: BaseException) -> None:
    def ended(plan: Plan) -> str:
        packed(plan)
        raise error

    with pytest.raises(type(error)):
        build.build(plan, ended, launched)
    assert everything() == {}


def test_ctrl_c_while_an_instance_is_tried_leaves_nothing(plan: Plan) -> None:
    def interrupted(plan: Plan, client: object, made: str) -> None:
        with acceptance.launched(plan, client, made):  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(10)

    with pytest.raises(KeyboardInterrupt):
        build.build(plan, packed, interrupted)
    assert everything() == {}


def test_a_second_ctrl_c_waits_until_everything_is_removed(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = EC2Response.terminate_instances

    def terminate(self: EC2Response) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return known(self)

    monkeypatch.setattr(EC2Response, "terminate_instances", terminate)
    with pytest.raises(KeyboardInterrupt):
        build.build(plan, packed, _raise(KeyboardInterrupt()))  # type: ignore[arg-type]
    assert everything() == {}


def test_an_instance_that_never_gets_ready_is_removed(plan: Plan) -> None:
    def never(plan: Plan, client: object, made: str) -> None:
        with acceptance.launched(plan, client, made):  # type: ignore[arg-type]
            acceptance.wait_ready("127.0.0.1", timeout=0.05, port=1)

    with pytest.raises(ApplianceError, match="was not 200 within"):
        build.build(plan, packed, never)
    assert everything() == {}


def test_what_cannot_be_removed_is_named_and_the_rest_goes(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: EC2Response) -> object:
        raise EC2ClientError("UnauthorizedOperation", "Not yours.")

    monkeypatch.setattr(EC2Response, "delete_key_pair", refuse)

    def ended(plan: Plan) -> str:
        packed(plan)
        raise ApplianceError("Packer failed.")

    with pytest.raises(ApplianceError, match=r"Packer failed.*could not be removed: key pairs"):
        build.build(plan, ended, launched)
    assert set(everything()) == {"key pairs"}


def test_another_builds_things_are_left_alone(plan: Plan) -> None:
    other = Plan("1.2.3", "1" * 40, REGION, "203.0.113.7/32", "9999ffff-y2", plan.out)
    packed(other)
    before = everything()

    def ended(plan: Plan) -> str:
        packed(Plan(plan.version, plan.commit, REGION, plan.ssh_cidr, plan.build_id, plan.out))
        raise ApplianceError("Packer failed.")

    boto3.Session().client("ec2", region_name=REGION).delete_security_group(GroupName="packer_1")
    before["security groups"] = []
    with pytest.raises(ApplianceError):
        build.build(plan, ended, launched)
    assert everything() == {kind: names for kind, names in before.items() if names}


def _no_credentials(patch: pytest.MonkeyPatch) -> None:
    patch.delenv("AWS_ACCESS_KEY_ID")
    patch.delenv("AWS_SECRET_ACCESS_KEY")


def _encrypted(_: pytest.MonkeyPatch) -> None:
    boto3.Session().client("ec2", region_name=REGION).enable_ebs_encryption_by_default()


def _same_name(_: pytest.MonkeyPatch) -> None:
    ec2 = boto3.Session().client("ec2", region_name=REGION)
    ec2.register_image(Name=f"infinity-1.2.3-ubuntu-24.04-amd64-{BUILD_ID}")


def _forbidden(patch: pytest.MonkeyPatch) -> None:
    def refuse(_: EC2Response) -> object:
        raise EC2ClientError("UnauthorizedOperation", "Not for you.")

    patch.setattr(EC2Response, "get_ebs_encryption_by_default", refuse)


def _silent(patch: pytest.MonkeyPatch) -> None:
    patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (_no_credentials, "no credentials"),
        (_encrypted, "encryption by default is on"),
        (_same_name, "is an AMI infinity-1.2.3-"),
        (_forbidden, "checking the account: .*UnauthorizedOperation"),
        (_silent, "AWS refused while checking the account"),
    ],
)
def test_what_would_fail_later_is_said_before_anything_is_made(
    plan: Plan,
    monkeypatch: pytest.MonkeyPatch,
    arrange: Callable[[pytest.MonkeyPatch], None],
    words: str,
) -> None:
    arrange(monkeypatch)
    with pytest.raises(ApplianceError, match=words) as caught:
        build.build(plan, _raise(AssertionError("it began")), launched)
    assert caught.value.hint


@pytest.mark.parametrize("region", ["", "eu-central-1"])
def test_another_region_is_refused(region: str) -> None:
    with pytest.raises(ApplianceError, match="us-east-1 only"):
        preconditions.check_region(region)


GOOD = {
    "State": "available",
    "Architecture": "x86_64",
    "VirtualizationType": "hvm",
    "RootDeviceType": "ebs",
    "EnaSupport": True,
    "ImdsSupport": "v2.0",
    "Name": "infinity",
    "Description": "plain",
}
DISKS = [{"SnapshotId": "snap-1", "Encrypted": False}]
SHARED = {"snap-1": [MARKETPLACE_ACCOUNT]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"State": "pending"}, "State is pending"),
        ({"Architecture": "arm64"}, "Architecture is arm64"),
        ({"VirtualizationType": "paravirtual"}, "VirtualizationType is paravirtual"),
        ({"RootDeviceType": "instance-store"}, "RootDeviceType is instance-store"),
        ({"EnaSupport": False}, "EnaSupport is False"),
        ({"ImdsSupport": None}, "ImdsSupport is None"),
        ({"Description": "für alle"}, "not ASCII"),
        ({"ProductCodes": [{"ProductCodeId": "x"}]}, "another product's code"),
    ],
)
def test_each_rule_for_an_ami_is_broken_by_name(change: dict[str, object], words: str) -> None:
    assert image.rules(GOOD, DISKS, [MARKETPLACE_ACCOUNT], [], SHARED) == []
    (broken,) = image.rules(GOOD | change, DISKS, [MARKETPLACE_ACCOUNT], [], SHARED)
    assert words in broken


def test_disks_and_permissions_are_rules_too() -> None:
    shared = {"snap-1": ["999999999999"]}
    encrypted = [{"SnapshotId": "snap-1", "Encrypted": True}]
    broken = image.rules(GOOD, encrypted, [], ["all"], shared)
    assert [words in phrase for words, phrase in zip(
        ["snap-1 is encrypted", "may not launch", "anybody", "may not read snap-1"],
        broken, strict=True)] == [True] * 4  # fmt: skip
    assert image.rules(GOOD, [], [MARKETPLACE_ACCOUNT], [], {}) == ["it has no snapshot"]


def test_a_broken_rule_of_the_real_ami_ends_the_build(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ami, "ena_support", False, raising=False)
    with pytest.raises(ApplianceError, match="EnaSupport is False"):
        build.build(plan, packed, launched)
    assert everything() == {}


def test_everything_is_found_by_the_tag_that_packers_template_sets() -> None:
    template = (REPO / "packer/ami.pkr.hcl").read_text()
    assert f'"{BUILD_TAG}"' in template
