"""``python -m appliance.ami``: the machine image.

check ROOT     every rule for an image, tried on a root filesystem
build          what `make ami` does: an AMI of this commit, tried as a buyer would, or nothing
publish        a new version of the listing of the last AMI; --validate is a dry run only
usage          the listing's usage instructions, as generated from the guide
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from appliance.ami import check
from appliance.errors import ApplianceError


def main() -> int:
    options = parser().parse_args()
    try:
        return int(options.run(options))
    except ApplianceError as error:
        print(f"ami: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"     {error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m appliance.ami",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    checking = commands.add_parser("check")
    checking.add_argument("root", type=Path)
    checking.set_defaults(run=lambda options: check.main(options.root))
    building = commands.add_parser("build")
    building.add_argument(
        "--ssh-cidr", default="0.0.0.0/0", help="from where the build's instances may be reached"
    )
    building.add_argument("--timeout", type=float, default=3600.0, help="seconds for Packer")
    building.set_defaults(run=build)
    publishing = commands.add_parser("publish")
    publishing.add_argument("--validate", action="store_true", help="dry run only")
    publishing.add_argument("--product", required=True, help="the listing's id, prod-…")
    publishing.add_argument("--role", required=True, help="ARN of Marketplace's access role")
    publishing.add_argument("--record", type=Path, help="ami.json of a build; the last one's")
    publishing.set_defaults(run=publish)
    commands.add_parser("usage").set_defaults(run=usage)
    return made


# The image has the scanner only: what the others need is imported where they are called.


def build(options: argparse.Namespace) -> int:
    from appliance.ami import build as building  # noqa: PLC0415
    from appliance.ami.plan import plan  # noqa: PLC0415

    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    return building.main(plan(region, options.ssh_cidr, options.timeout))


def publish(options: argparse.Namespace) -> int:
    from appliance.ami import publish as publishing  # noqa: PLC0415

    record = options.record or publishing.newest_record()
    return publishing.main(record, options.product, options.role, validate_only=options.validate)


def usage(_: argparse.Namespace) -> int:
    from appliance.ami import usage as instructions  # noqa: PLC0415
    from appliance.ami.guide import GUIDE  # noqa: PLC0415

    print(instructions.instructions(GUIDE.read_text()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
