"""``make run``: from nothing to a curl command that works when pasted, until Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import signal
import time
from collections.abc import Iterator
from types import FrameType

from appliance.errors import ApplianceError
from machine import cache, host, names, pids, processes, say
from machine.build import build
from machine.instance import Machine

STOPS = (signal.SIGINT, signal.SIGTERM)


def run(name: str, mode: str) -> int:
    """Run in the foreground until SIGINT or SIGTERM, then remove what was started.

    Raises:
        ApplianceError: a machine was demanded and cannot be, another ``make run`` of this
            checkout is under way, or what was started failed.
    """
    with _interruptible(), _alone(), contextlib.suppress(KeyboardInterrupt):
        reason = "" if mode == "processes" else host.why_no_machine()
        if reason and mode == "machine":
            raise ApplianceError(
                f"No machine can be booted here: {reason}.", "MODE=processes does without one."
            )
        if reason:
            cache.say(f"No machine can be booted here: {reason}. Running as processes instead.")
        if reason or mode == "processes":
            processes.run()
        else:
            _run_machine(name)
    return 0


def _run_machine(name: str) -> None:
    machine = Machine(names.place(name))
    if machine.running:
        raise ApplianceError(
            f"A machine {name!r} is running already.",
            "`python3 -m machine exec` reaches it, `python3 -m machine down` removes it.",
        )
    machine.down()  # what a crash left
    try:
        started = time.monotonic()
        image = build()
        cache.say("Booting the machine ...")
        Machine.up(name, image=image)
        cache.say(f"\nReady, {time.monotonic() - started:.0f} s after the start:\n")
        cache.say(f"{say.ready(machine)}\n\nCtrl-C stops and removes it.")
        while pids.alive(machine.place.supervisor):
            time.sleep(0.5)
        cache.say("The machine has powered itself off.")
    finally:
        cache.say("\nRemoving the machine.")
        machine.down()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM interrupts as SIGINT does, so that both clean up."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in before:  # once is enough: nothing interrupts the cleaning up
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """At most one ``make run`` of a checkout at a time."""
    path = cache.folder("locks") / f"run-{names.tag()}"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ApplianceError(
                "Another `make run` of this checkout is under way.", "Stop it with Ctrl-C there."
            ) from None
        yield
