"""`infinity-gate-check`: tries to get past nginx, and with the right credentials through it.

nginx.service runs it after each start and is stopped when it fails.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from appliance import settings, verify
from appliance.apply import target
from appliance.errors import ApplianceError
from appliance.paths import Paths


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="infinity-gate-check",
        description=__doc__,
        epilog="example: sudo infinity-gate-check",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--root", type=Path, default=Path("/"), help="where the files are")
    paths = Paths(parser.parse_args().root.absolute())
    try:
        check(paths)
    except ApplianceError as error:
        print(f"infinity-gate-check: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"infinity-gate-check: {error.filename}: {error.strerror}. "
              "Hint: run it as root, after first boot.", file=sys.stderr)  # fmt: skip
        return 1
    print(
        "infinity-gate-check: the gate refuses strangers and accepts this instance's credentials."
    )
    return 0


def check(paths: Paths) -> None:
    verify.require(target(settings.required(paths), paths))


if __name__ == "__main__":
    sys.exit(main())
