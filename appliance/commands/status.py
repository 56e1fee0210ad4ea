"""One screen about this instance: what it is, how it is, what is wrong and what mends it.

It changes nothing. --json prints the same for programs, as docs/status.schema.json describes.
"""

from __future__ import annotations

import argparse
import sys

from appliance import command
from appliance.gate import Gate
from appliance.status import clock, screen, wrong
from appliance.status.collect import collect
from appliance.status.report import Status

WRONG = 1


def main() -> int:
    example = "sudo infinity-status\n  sudo infinity-status --json | jq .problems"
    exits = "0 all is well, 1 something is wrong, 2 wrong use"
    made = command.parser("infinity-status", __doc__, example, exits)
    made.add_argument("--json", action="store_true", help="print it as JSON")
    return command.run(made, show)


def show(options: argparse.Namespace, gate: Gate) -> int:
    parts = collect(gate.paths)
    status = Status(clock.now(), parts, wrong.problems(parts))
    if options.json:
        print(status.as_json(), end="")
    else:
        print(screen.page(status, colours=sys.stdout.isatty()), end="")
    return command.DONE if status.healthy else WRONG


if __name__ == "__main__":
    sys.exit(main())
