"""The listing's new version: the exact request, dry run first, texts within the limits."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from typing import Any, Literal

import boto3
import pytest
from botocore.stub import Stubber

from appliance.ami import __main__, publish, usage
from appliance.ami.guide import GUIDE
from appliance.ami.plan import REPO
from appliance.errors import ApplianceError

RECORD = {"image": "ami-0123456789abcdef0", "version": "1.2.3", "build": "0123abcd-x1"}
ROLE = "arn:aws:iam::123456789012:role/AwsMarketplaceAmiIngestion"
CHANGES = publish.change_set(RECORD, "prod-example", ROLE)
STARTED = {"ChangeSetId": "cs-1", "ChangeSetArn": "arn:aws:aws-marketplace:us-east-1:1:x/cs-1"}


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Stubber]]:
    monkeypatch.setattr(publish, "PAUSE", 0.0)
    client = boto3.Session("testing", "testing").client(
        "marketplace-catalog", region_name="us-east-1"
    )
    with Stubber(client) as stub:
        yield client, stub
        stub.assert_no_pending_responses()


def expect(stub: Stubber, intent: str, *states: str, **said: object) -> None:
    request = {"Catalog": "AWSMarketplace", "ChangeSet": CHANGES, "Intent": intent}
    stub.add_response("start_change_set", STARTED, request)
    for state in states:
        stub.add_response(
            "describe_change_set",
            {"Status": state, **said},
            {"Catalog": "AWSMarketplace", "ChangeSetId": "cs-1"},
        )


def test_the_request_is_a_new_version_with_this_ami() -> None:
    (change,) = CHANGES
    assert change["ChangeType"] == "AddDeliveryOptions"
    assert change["Entity"] == {"Type": "AmiProduct@1.0", "Identifier": "prod-example"}
    document = change["DetailsDocument"]
    (option,) = document["DeliveryOptions"]
    details = option["Details"]["AmiDeliveryOptionDetails"]
    assert details["AmiSource"] == {
        "AmiId": RECORD["image"],
        "AccessRoleArn": ROLE,
        "UserName": "ubuntu",
        "OperatingSystemName": "UBUNTU",
        "OperatingSystemVersion": "24.04",
    }
    assert len(document["Version"]["VersionTitle"]) <= usage.LONGEST_TITLE
    assert len(document["Version"]["ReleaseNotes"]) <= usage.LONGEST_NOTES


def test_the_recommended_group_opens_nothing_to_the_world() -> None:
    assert "0.0.0.0/0" not in str(CHANGES)


def test_a_dry_run_publishes_nothing(catalog: tuple[Any, Stubber]) -> None:
    client, stub = catalog
    expect(stub, "VALIDATE", "PREPARING", "APPLYING", "SUCCEEDED")
    publish.publish(client, CHANGES, validate_only=True)


def test_publishing_is_validated_first(catalog: tuple[Any, Stubber]) -> None:
    client, stub = catalog
    expect(stub, "VALIDATE", "SUCCEEDED")
    expect(stub, "APPLY", "APPLYING", "SUCCEEDED")
    publish.publish(client, CHANGES, validate_only=False)


def test_a_version_that_is_refused_in_the_dry_run_is_not_published(
    catalog: tuple[Any, Stubber],
) -> None:
    client, stub = catalog
    detail = {"ErrorCode": "INVALID_AMI", "ErrorMessage": "It holds a password."}
    expect(stub, "VALIDATE", "FAILED", ChangeSet=[{"ErrorDetailList": [detail]}])
    with pytest.raises(ApplianceError, match=r"VALIDATE.*INVALID_AMI: It holds a password"):
        publish.publish(client, CHANGES, validate_only=False)


def test_an_error_of_the_api_is_told(catalog: tuple[Any, Stubber]) -> None:
    client, stub = catalog
    stub.add_client_error("start_change_set", "AccessDeniedException", "Not for you.")
    with pytest.raises(ApplianceError, match=r"submitting the change set.*Not for you"):
        publish.publish(client, CHANGES, validate_only=True)


def test_a_change_set_that_never_ends_is_not_waited_for_for_ever(
    catalog: tuple[Any, Stubber],
) -> None:
    client, stub = catalog
    expect(stub, "VALIDATE", "PREPARING")
    expect_cancel(stub)
    with pytest.raises(ApplianceError, match="cs-1 is not over"):
        publish.submit(client, CHANGES, "VALIDATE", patience=-1)


def expect_cancel(stub: Stubber) -> None:
    stub.add_response(
        "cancel_change_set", STARTED, {"Catalog": "AWSMarketplace", "ChangeSetId": "cs-1"}
    )


@pytest.mark.parametrize("intent", ["VALIDATE", "APPLY"])
def test_ctrl_c_cancels_what_was_started(
    catalog: tuple[Any, Stubber],
    monkeypatch: pytest.MonkeyPatch,
    intent: Literal["VALIDATE", "APPLY"],
) -> None:
    client, stub = catalog
    expect(stub, intent, "PREPARING")
    expect_cancel(stub)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish.submit(client, CHANGES, intent)


def test_an_error_while_it_is_waited_for_cancels_it(catalog: tuple[Any, Stubber]) -> None:
    client, stub = catalog
    expect(stub, "APPLY", "PREPARING")
    stub.add_client_error("describe_change_set", "ThrottlingException", "Slower.")
    expect_cancel(stub)
    with pytest.raises(ApplianceError, match="Slower"):
        publish.submit(client, CHANGES, "APPLY")


def test_what_cannot_be_cancelled_is_named(
    catalog: tuple[Any, Stubber], capsys: pytest.CaptureFixture[str]
) -> None:
    client, stub = catalog
    expect(stub, "APPLY", "APPLYING")
    stub.add_client_error("cancel_change_set", "ResourceInUseException", "Too late.")
    with pytest.raises(ApplianceError, match="cs-1 is not over"):
        publish.submit(client, CHANGES, "APPLY", patience=-1)
    assert "cs-1 could not be cancelled" in capsys.readouterr().err


def test_without_credentials_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(ApplianceError, match="no credentials"):
        publish.publish(publish.client(), CHANGES, validate_only=True)


def test_the_readmes_command_is_understood() -> None:
    readme = (REPO / "README.md").read_text()
    (line,) = re.findall(r"^python3 -m machine ami -- (publish .*)$", readme, re.MULTILINE)
    options = __main__.parser().parse_args(shlex.split(line.replace("<", "").replace(">", "")))
    assert options.run is __main__.publish
    assert options.validate


TOPICS = {
    "CONNECT": "ssh -i",
    "WHERE SENSITIVE DATA LIVES": "/root/infinity-credentials.txt",
    "CHANGE KEY AND PASSWORD": "sudo infinity-api-key rotate",
    "HEALTH": "/readyz",
    "BACKUP AND RECOVERY": "backup:",
    "UPGRADES": "unattended upgrades",
    "COSTS": "software charge",
}


@pytest.mark.parametrize("topic", TOPICS)
def test_the_instructions_say_what_the_listing_demands(topic: str) -> None:
    text = usage.instructions(GUIDE.read_text())
    _, _, after = text.partition(f"{topic}\n")
    assert TOPICS[topic] in after.split("\n\n")[0]
    assert len(text) <= usage.LONGEST_INSTRUCTIONS
    assert text.isascii()


@pytest.mark.parametrize(
    "gone", ["| backup |", "sudo infinity-api-key rotate", "* An instance type.", "## Step 2:"]
)
def test_a_guide_that_no_longer_says_it_is_noticed(gone: str) -> None:
    with pytest.raises(ApplianceError):
        usage.instructions(GUIDE.read_text().replace(gone, "| other"))


def test_instructions_that_are_too_long_are_not_cut_silently() -> None:
    guide = GUIDE.read_text().replace("| backup | ", "| backup | " + "very " * 800)
    with pytest.raises(ApplianceError, match="the listing takes 4000"):
        usage.instructions(guide)
