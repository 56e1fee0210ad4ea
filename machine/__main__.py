"""``python3 -m machine``: your own computer as EC2.

    build                      make the image; cached, rebuilt when an input changes
    up [--imds FILE|none]      make a machine or start it; returns when it is ready
       [--from A]              … with a copy of machine A's disk, as another instance
    exec [--user U] -- CMD…    run a command inside
    reboot | stop | down       restart it | power it off | remove it
    logs [-- ARGUMENTS]        its journal, with journalctl's own arguments
    list                       the machines of this checkout
    run                        build, boot, say how to use it, remove it on Ctrl-C

All but build and list take --name N; the default is "main".
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from appliance.errors import ApplianceError
from machine import inside, names, say
from machine.instance import Machine


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
    verbs = made.add_subparsers(required=True, metavar="COMMAND")

    def verb(name: str, command: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        added = verbs.add_parser(name)
        added.set_defaults(command=command)
        return added

    verb("build", build)
    up_ = verb("up", up)
    up_.add_argument("--imds", metavar="FILE|none", help="what its metadata says, as JSON")
    up_.add_argument("--from", dest="source", metavar="A", help="clone this machine's disk")
    exec_ = verb("exec", execute)
    exec_.add_argument("--user", default="root")
    exec_.add_argument("argv", nargs="+", metavar="CMD")
    verb("reboot", reboot)
    verb("stop", stop)
    verb("down", down)
    verb("logs", logs).add_argument("argv", nargs="*", metavar="ARGUMENT")
    verb("list", list_)
    verb("run", run).add_argument(
        "--mode", choices=("auto", "machine", "processes"), default="auto"
    )
    for name, added in verbs.choices.items():
        if name not in {"build", "list"}:
            added.add_argument("--name", default=names.DEFAULT)
    return made


def _named(options: argparse.Namespace) -> Machine:
    need_root()
    return Machine(names.place(options.name))


def need_root() -> None:
    if os.geteuid() != 0:
        raise ApplianceError(
            "A machine needs root.", "Use sudo, or `make run`, which does without a machine."
        )


def build(_: argparse.Namespace) -> int:
    from machine.build import build as build_image  # noqa: PLC0415 - only when asked to

    image = build_image()
    print(f"image {image.key} ({image.suite}, {image.model})")
    return 0


def up(options: argparse.Namespace) -> int:
    machine = _named(options)
    if machine.running:
        machine.wait_ready()
    else:
        file = Path(options.imds) if options.imds not in {None, "none"} else None
        if file and not file.is_file():
            raise ApplianceError(f"There is no file {file}.", "It is JSON; see machine/imds.py.")
        Machine.up(
            options.name, imds_file=file, no_imds=options.imds == "none", source=options.source
        )
    print(say.ready(machine))
    return 0


def execute(options: argparse.Namespace) -> int:
    return inside.attach(_named(options).leader(), options.argv, user=options.user)


def reboot(options: argparse.Namespace) -> int:
    _named(options).reboot()
    return 0


def stop(options: argparse.Namespace) -> int:
    _named(options).stop()
    return 0


def down(options: argparse.Namespace) -> int:
    _named(options).down()
    return 0


def logs(options: argparse.Namespace) -> int:
    with contextlib.suppress(BrokenPipeError):
        return inside.attach(_named(options).leader(), ["journalctl", *options.argv])
    return 0


def list_(_: argparse.Namespace) -> int:
    need_root()
    for machine in Machine.all():
        state = f"running at {machine.address}" if machine.running else "powered off"
        print(f"{machine.name:16} {state}")
    return 0


def run(options: argparse.Namespace) -> int:
    from machine.run_command import run as run_in_foreground  # noqa: PLC0415 - only when asked to

    return run_in_foreground(options.name, options.mode)


if __name__ == "__main__":
    sys.exit(main())
