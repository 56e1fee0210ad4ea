"""``python3 -m machine``: your own computer as EC2.

    build                      make the image; cached, rebuilt when an input changes
    reproduce [--layer NAME]   build it twice (from that layer up) and compare every file
    disk [FILE]                the image as a disk that boots by itself, at build/disk.raw or there
    up [--imds FILE|none]      make a machine or start it; returns when it is ready
       [--from A]              … with a copy of machine A's disk, as another instance
    exec [--user U] -- CMD…    run a command inside
    reboot | stop | down       restart it | power it off | remove it
    logs [-- ARGUMENTS]        its journal, with journalctl's own arguments
    list                       the machines of this checkout
    run [--mode MODE]          what `make run` does: serve until Ctrl-C, then clear it away
    test | bench | soak | fleet | audit [-- ARGS…]    what `make test` and its like do
    ami -- build | publish | …         python -m appliance.ami in the tests' environment

up to logs take --name N; the default is "main". `down --all` removes all of this checkout's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from appliance.errors import ApplianceError
from machine import disk, names, verbs

MODES = ("auto", "machine", "processes")


def main() -> int:
    options = parser().parse_args()
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except ApplianceError as error:
        print(f"machine: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"         {error.hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python3 -m machine",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")

    def verb(name: str, command: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        added = commands.add_parser(name)
        added.set_defaults(command=command)
        return added

    verb("build", verbs.build)
    verb("disk", verbs.disk).add_argument("file", nargs="?", type=Path, default=disk.DEFAULT)
    up = verb("up", verbs.up)
    up.add_argument("--imds", metavar="FILE|none", help="what its metadata says, as JSON")
    up.add_argument("--from", dest="source", metavar="A", help="clone this machine's disk")
    execute = verb("exec", verbs.execute)
    execute.add_argument("--user", default="root")
    execute.add_argument("argv", nargs="+", metavar="CMD")
    verb("reproduce", verbs.reproduce).add_argument("--layer", metavar="NAME")
    verb("reboot", verbs.reboot)
    verb("stop", verbs.stop)
    verb("down", verbs.down).add_argument("--all", action="store_true")
    verb("logs", verbs.logs).add_argument("argv", nargs="*", metavar="ARGUMENT")
    verb("list", verbs.show_all)
    verb("run", verbs.run).add_argument("--mode", choices=MODES, default="auto")
    verb("test", verbs.test).add_argument("argv", nargs="*", metavar="ARGUMENT")
    verb("ami", verbs.ami).add_argument("argv", nargs="*", metavar="ARGUMENT")
    verb("audit", verbs.audit).add_argument("argv", nargs="*", metavar="ROWS")
    verb("fleet", verbs.fleet).add_argument("argv", nargs="*", metavar="ARGUMENT")
    verb("soak", verbs.soak).add_argument("argv", nargs="*", metavar="ARGUMENT")
    verb("bench", verbs.bench).add_argument("argv", nargs="*", metavar="ARGUMENT")
    for name in ("up", "exec", "reboot", "stop", "down", "logs", "run"):
        commands.choices[name].add_argument("--name", default=names.DEFAULT)
    return made


if __name__ == "__main__":
    sys.exit(main())
