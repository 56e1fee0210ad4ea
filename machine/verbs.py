"""The commands of ``python3 -m machine``, each from its options to an exit status."""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path

from appliance.errors import ApplianceError
from machine import build as image
from machine import checks, inside, names, run_command, say
from machine import disk as bootable
from machine import reproduce as two_builds
from machine.instance import Machine


def _named(options: argparse.Namespace) -> Machine:
    need_root()
    return Machine(names.place(options.name))


def need_root() -> None:
    if os.geteuid() != 0:
        raise ApplianceError(
            "A machine needs root.", "Use sudo, or `make run`, which does without a machine."
        )


def build(_: argparse.Namespace) -> int:
    made = image.build()
    print(f"image {made.key} ({made.suite}, {made.model})")
    return 0


def disk(options: argparse.Namespace) -> int:
    bootable.make(image.build(kernel=True), options.file)
    print(f"{options.file}: GPT, EFI, {bootable.SIZE >> 30} GiB, sparse. It asks EC2's metadata")
    print("service who it is, as an instance does; `make test-disk` boots one under QEMU.")
    return 0


def reproduce(options: argparse.Namespace) -> int:
    need_root()
    return two_builds.reproduce(options.layer)


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
    if options.all:
        for place in names.every_place():
            need_root()
            Machine(place).down()
    else:
        _named(options).down()
    return 0


def logs(options: argparse.Namespace) -> int:
    with contextlib.suppress(BrokenPipeError):
        return inside.attach(_named(options).leader(), ["journalctl", *options.argv])
    return 0


def show_all(_: argparse.Namespace) -> int:
    need_root()
    for machine in Machine.all():
        state = f"running at {machine.address}" if machine.running else "powered off"
        print(f"{machine.name:16} {state}")
    return 0


def run(options: argparse.Namespace) -> int:
    return run_command.run(options.name, options.mode)


def test(options: argparse.Namespace) -> int:
    return checks.test(options.argv)


def bench(options: argparse.Namespace) -> int:
    return checks.bench(options.argv)


def soak(options: argparse.Namespace) -> int:
    return checks.soak(options.argv)


def ami(options: argparse.Namespace) -> int:
    return checks.ami(options.argv)


def fleet(options: argparse.Namespace) -> int:
    return checks.fleet(options.argv)


def audit(options: argparse.Namespace) -> int:
    return checks.audit(options.argv)
