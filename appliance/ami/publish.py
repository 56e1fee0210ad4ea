"""A new version of the listing, through AWS Marketplace's Catalog API; dry run first, always."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from appliance.ami import usage
from appliance.ami.plan import MARKETPLACE_REGION, REPO, explain
from appliance.errors import ApplianceError

if TYPE_CHECKING:
    from types_boto3_marketplace_catalog import MarketplaceCatalogClient

CATALOG = "AWSMarketplace"
PATIENCE = 3600.0  # seconds for one change set; a scan takes its time
PAUSE = 15.0
OVER = ("SUCCEEDED", "FAILED", "CANCELLED")
# Nobody is let in by a click: the buyer's own networks, to be narrowed at launch.
PRIVATE = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]


def change_set(record: Mapping[str, Any], product: str, role: str) -> list[dict[str, Any]]:
    """The one change: a version with one delivery option, this AMI.

    Args:
        record: build/ami/…/ami.json.
        product: the listing's id, such as prod-….
        role: the ARN of the role through which AWS Marketplace reads the AMI.

    Raises:
        ApplianceError: a text is longer than the listing takes.
    """
    title = f"{record['version']} ({record['build']})"
    notes = _notes((REPO / "CHANGELOG.md").read_text())
    if len(title) > usage.LONGEST_TITLE or len(notes) > usage.LONGEST_NOTES:
        raise ApplianceError(
            f"The version's title has {len(title)} characters and its notes {len(notes)}; the "
            f"listing takes {usage.LONGEST_TITLE} and {usage.LONGEST_NOTES}."
        )
    ports = [
        {"FromPort": port, "ToPort": port, "IpProtocol": "tcp", "IpRanges": PRIVATE}
        for port in (22, 80, 443)
    ]
    option = {
        "UsageInstructions": usage.instructions((REPO / "docs/guide.md").read_text()),
        "RecommendedInstanceType": "m5.large",
        "AmiSource": {
            "AmiId": record["image"],
            "AccessRoleArn": role,
            "UserName": "ubuntu",
            "OperatingSystemName": "UBUNTU",
            "OperatingSystemVersion": "24.04",
        },
        "SecurityGroups": ports,
        "AccessEndpointUrl": {"Port": 443, "Protocol": "https", "RelativePath": "docs"},
    }
    return [
        {
            "ChangeType": "AddDeliveryOptions",
            "Entity": {"Type": "AmiProduct@1.0", "Identifier": product},
            "DetailsDocument": {
                "Version": {"VersionTitle": title, "ReleaseNotes": notes},
                "DeliveryOptions": [{"Details": {"AmiDeliveryOptionDetails": option}}],
            },
        }
    ]


def _notes(changelog: str) -> str:
    """The newest section of the change log."""
    found = re.search(r"^## \[.*?\].*?\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if not found:
        raise ApplianceError("CHANGELOG.md has no section.")
    return found[1].replace("`", "").strip()


def client() -> MarketplaceCatalogClient:
    import boto3  # noqa: PLC0415 - slow to import

    made: MarketplaceCatalogClient = boto3.Session().client(
        "marketplace-catalog", region_name=MARKETPLACE_REGION
    )
    return made


def publish(
    catalog: MarketplaceCatalogClient, changes: list[dict[str, Any]], *, validate_only: bool
) -> None:
    """Have the change set validated and, unless that was all, applied.

    Raises:
        ApplianceError: it was refused; the message has AWS's reasons. Nothing has been published
            unless the message says so.
    """
    submit(catalog, changes, "VALIDATE")
    if not validate_only:
        submit(catalog, changes, "APPLY")


def submit(
    catalog: MarketplaceCatalogClient,
    changes: list[dict[str, Any]],
    intent: Literal["VALIDATE", "APPLY"],
    patience: float = PATIENCE,
) -> None:
    """Start one change set and wait for its end; one that is not waited for is cancelled.

    Raises:
        ApplianceError: it was refused, or did not end in time, or AWS did not answer.
        KeyboardInterrupt: it was interrupted.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        started = catalog.start_change_set(
            Catalog=CATALOG,
            ChangeSet=changes,  # type: ignore[arg-type] # the structure is checked by botocore
            Intent=intent,
        )["ChangeSetId"]
        print(f"{intent}: change set {started}", flush=True)
        try:
            said = _ended(catalog, started, patience)
        except BaseException:
            _cancel(catalog, started)
            raise
    except (BotoCoreError, ClientError) as error:
        raise explain(error, f"submitting the change set ({intent})") from error
    if said["Status"] != "SUCCEEDED":
        errors = [
            f"{detail.get('ErrorCode', '')}: {detail.get('ErrorMessage', '')}"
            for change in said.get("ChangeSet", [])
            for detail in change.get("ErrorDetailList", [])
        ]
        why = "; ".join(errors) or said.get("FailureDescription", said["Status"])
        raise ApplianceError(f"AWS Marketplace refuses the version ({intent}): {why}")


def _ended(catalog: MarketplaceCatalogClient, started: str, patience: float) -> Mapping[str, Any]:
    """What AWS says of a change set once it is over."""
    deadline = time.monotonic() + patience
    while True:
        said = catalog.describe_change_set(Catalog=CATALOG, ChangeSetId=started)
        if said["Status"] in OVER:
            return said
        if time.monotonic() > deadline:
            raise ApplianceError(f"The change set {started} is not over after {patience:g} s.")
        time.sleep(PAUSE)


def _cancel(catalog: MarketplaceCatalogClient, started: str) -> None:
    """Say so where it cannot be: AWS takes no change back that it has begun to apply."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        catalog.cancel_change_set(Catalog=CATALOG, ChangeSetId=started)
    except (BotoCoreError, ClientError) as error:
        print(
            f"The change set {started} could not be cancelled ({error}). AWS goes on with it; "
            "look for it in the Marketplace Management Portal.",
            file=sys.stderr,
            flush=True,
        )
    else:
        print(f"The change set {started} is cancelled.", file=sys.stderr, flush=True)


def newest_record() -> Path:
    """The ami.json of the last build in this checkout.

    Raises:
        ApplianceError: there is none.
    """
    found = sorted(REPO.glob("build/ami/*/ami.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ApplianceError("No AMI has been built in this checkout.", "`make ami` builds one.")
    return found[-1]


def main(record: Path, product: str, role: str, *, validate_only: bool) -> int:
    changes = change_set(json.loads(record.read_text()), product, role)
    publish(client(), changes, validate_only=validate_only)
    print("The version is valid." if validate_only else "The version is published.")
    return 0
