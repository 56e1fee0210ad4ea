"""Making, starting, stopping and removing a machine: the order of the steps."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.files import write_atomic
from appliance.run import run
from machine import (
    cgroups,
    local_config,
    metadata,
    network,
    nspawn,
    overlay,
    pids,
    record,
)
from machine.names import CHECKOUT, Place
from machine.record import Record

PATIENCE = 120.0  # seconds for one step of a boot; a machine that ends is noticed at once


def make_key(place: Place) -> None:
    """The launch key pair, as EC2 hands one out: made once, kept with the machine."""
    if not place.key.exists():
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "launch", "-f", place.key])


def start(place: Place, saved: Record) -> None:
    """Boot a machine that has a record and is not running; returns without waiting."""
    sweep(place)
    saved = replace(saved, index=network.create(place))
    record.save(place, saved)
    overlay.mount(place, [Path(layer) for layer in saved.layers])
    local_config.write(place)
    write_defaults(place, saved)
    if saved.metadata is not None:
        start_emulator(place, Path(saved.metadata))
    start_supervisor(place)


def write_defaults(place: Place, saved: Record) -> None:
    """What the emulator says where the machine's file is silent."""
    address, mac = network.machine_address(saved.index), network.mac(saved.index)
    defaults = metadata.instance_defaults(address, mac)
    defaults["instance-id"] = saved.instance_id
    defaults["public-keys"] = [place.key.with_suffix(".pub").read_text().strip()]
    write_atomic(place.defaults, json.dumps(defaults, indent=2) + "\n", 0o600)


def start_emulator(place: Place, file: Path) -> None:
    """Start the metadata emulator in the router's namespace; returns once it listens."""
    argv = ["ip", "netns", "exec", place.router, sys.executable, "-m", "machine.imds",
            "--file", str(file), "--defaults", str(place.defaults),
            "--listen", network.METADATA_ADDRESS]  # fmt: skip
    process = _detached(argv, place.folder / "emulator.log", stdout=subprocess.PIPE)
    pids.remember(place.emulator, process.pid)
    assert process.stdout is not None  # noqa: S101 - PIPE above, said for the type checker
    with process.stdout as said:
        if not said.readline().startswith(b"listening"):
            last = (place.folder / "emulator.log").read_text().strip().splitlines()[-1:]
            raise ApplianceError(f"The metadata emulator did not start: {''.join(last)}")


def start_supervisor(place: Place) -> None:
    argv = [sys.executable, "-m", "machine.supervisor", place.name]
    process = _detached(argv, place.folder / "supervisor.log", stdout=subprocess.DEVNULL)
    pids.remember(place.supervisor, process.pid)


def _detached(argv: list[str], log: Path, *, stdout: int) -> subprocess.Popen[bytes]:
    """A process that outlives this one and its terminal."""
    with log.open("ab") as errors:
        return subprocess.Popen(
            argv,
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=errors,
            start_new_session=True,
        )


def running(place: Place) -> int | None:
    """The machine's PID 1 on the host, while it runs."""
    process = pids.alive(place.nspawn)
    return None if process is None else nspawn.leader(process)


def wait(place: Place, done: Callable[[], bool], what: str) -> None:
    """Return once ``done()``; it may raise ApplianceError while the machine cannot say yet.

    Raises:
        ApplianceError: the machine has ended, or takes too long to ``what``.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        over = pids.alive(place.supervisor) is None
        with contextlib.suppress(ApplianceError):
            if done():
                return
        if over:
            break
        time.sleep(0.02)
    lines = place.console.read_text(errors="replace").splitlines() if place.console.exists() else []
    tail = "".join(f"\n    {line}" for line in lines[-15:])
    raise ApplianceError(
        f"The machine {place.name!r} did not {what}. Its console's last lines:{tail}",
        f"The whole console is in {place.console}.",
    )


def sweep(place: Place) -> None:
    """Remove what belongs to a running machine, and keep its disk. Works on half of one.

    The supervisor goes first, so that it starts nothing again.
    """
    pids.kill(place.supervisor)
    cgroups.kill(place)
    for namespace in (place.inside, place.router):
        network.kill(namespace)
    for process in (place.nspawn, place.emulator):
        pids.kill(process)
        process.unlink(missing_ok=True)
    place.supervisor.unlink(missing_ok=True)
    cgroups.remove(place.full)
    overlay.unmount(place)
    network.remove(place)


def remove(place: Place) -> None:
    """Sweep, and delete the disk too."""
    sweep(place)
    place.certificate.unlink(missing_ok=True)
    if place.folder.exists():
        shutil.rmtree(place.folder)
