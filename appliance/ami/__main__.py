"""``python -m appliance.ami``: the machine image.

check ROOT     every rule for an image, tried on a root filesystem
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from appliance.ami import check
from appliance.errors import ApplianceError


def main() -> int:
    options = parser().parse_args()
    try:
        return check.main(options.root)
    except ApplianceError as error:
        print(f"ami: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"     {error.hint}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m appliance.ami",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND", dest="command")
    commands.add_parser("check").add_argument("root", type=Path)
    return made


if __name__ == "__main__":
    sys.exit(main())
