"""One screen about this instance: what it is, how it is, what is wrong and what mends it.

It changes nothing. --json prints the same for programs, as docs/status.schema.json describes.
--support writes an archive for a ticket: this report, states, journals, configuration, versions.
Secrets in it are replaced, and user data is left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from appliance import command
from appliance.gate import Gate
from appliance.status import clock, screen, wrong
from appliance.status.collect import collect
from appliance.status.report import Status

WRONG = 1
_DEFAULT = Path("-")


def main() -> int:
    example = (
        "sudo infinity-status\n"
        "  sudo infinity-status --json | jq .problems\n"
        "  sudo infinity-status --support"
    )
    exits = "0 all is well (--support: written), 1 something is wrong, 2 wrong use"
    made = command.parser("infinity-status", __doc__, example, exits)
    how = made.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print it as JSON")
    how.add_argument(
        "--support",
        nargs="?",
        type=Path,
        const=_DEFAULT,
        metavar="FILE",
        help="write an archive for a support ticket; FILE must not exist (default: in /root)",
    )
    return command.run(made, act)


def act(options: argparse.Namespace, gate: Gate) -> int:
    parts = collect(gate.paths)
    status = Status(clock.now(), parts, wrong.problems(parts))
    if options.support:
        return support(options.support, status, gate)
    if options.json:
        print(status.as_json(), end="")
    else:
        print(screen.page(status, colours=sys.stdout.isatty()), end="")
    return command.DONE if status.healthy else WRONG


def support(given: Path, status: Status, gate: Gate) -> int:
    from appliance.support import bundle  # noqa: PLC0415 - the report does not wait for it

    target = bundle.default_path(gate.paths) if given == _DEFAULT else given
    report = {"status.json": status.as_json(), "status.txt": screen.page(status, colours=False)}
    files, replaced = bundle.write(target, report, gate.paths)
    print(f"{target}: {files} files, {replaced} secrets replaced. Look into it before you send it.")
    return command.DONE


if __name__ == "__main__":
    sys.exit(main())
