"""``make ami``: from a commit to an AMI that a buyer could launch, or to nothing at all."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from appliance.ami import acceptance, image, leftovers, preconditions
from appliance.ami.bake import bake
from appliance.ami.plan import Plan, ec2, explain
from appliance.errors import ApplianceError

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client


def build(
    plan: Plan,
    bake: Callable[[Plan], str] = bake,
    accept: Callable[[Plan, EC2Client, str], None] = acceptance.accept,
) -> str:
    """Check, bake, finish, check again, try an instance, write down; returns the AMI's id.

    Whatever fails, and whenever it is interrupted, no instance, key pair, security group or
    half-made AMI stays.

    Args:
        plan: what to build.
        bake: makes the AMI.
        accept: tries it.

    Raises:
        ApplianceError: something failed; the message says what, and what is left if anything.
        KeyboardInterrupt: after everything has been removed.
    """
    client = ec2(plan.region)
    preconditions.check(plan, client)
    made = ""
    try:
        made = bake(plan)
        image.finish(plan, client, made)
        image.check(client, made)
        accept(plan, client, made)
        _write_down(plan, client, made)
    except BaseException as error:
        print("Removing what this build has made ...", file=sys.stderr, flush=True)
        left = leftovers.remove(plan, client, keep_image=False)
        raise _told(error, left) from error
    if left := leftovers.remove(plan, client, keep_image=True):
        raise ApplianceError(f"{made} is good, but there is left: {'; '.join(left)}")
    return made


def _told(error: BaseException, left: list[str]) -> BaseException:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    if isinstance(error, BotoCoreError | ClientError):
        error = explain(error, "building the AMI")
    if left:
        return ApplianceError(
            f"{error or type(error).__name__} And this could not be removed: {'; '.join(left)}",
            "Look for the tag infinity:build in the EC2 console.",
        )
    return error


def _write_down(plan: Plan, client: EC2Client, made: str) -> None:
    """What was made and where, beside the manifest and the bills of materials."""
    described = image.describe(client, made)
    record = {
        "image": made,
        "name": described["Name"],
        "region": plan.region,
        "snapshots": image.snapshots(described),
        "version": plan.version,
        "commit": plan.commit,
        "build": plan.build_id,
    }
    (plan.out / "ami.json").write_text(json.dumps(record, indent=2) + "\n")


def main(plan: Plan) -> int:
    """Build and say what was made; SIGTERM is treated as Ctrl-C."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    signal.signal(signal.SIGTERM, _interrupt)
    print(f"Building {plan.name} in {plan.region} ...", flush=True)
    made = build(plan)
    print(f"{made} {plan.name}\n{plan.out}")
    return 0


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
