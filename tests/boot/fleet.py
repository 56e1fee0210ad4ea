"""Machines that several tests share; they boot in the background while earlier tests run."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import probe

from machine import names
from machine.instance import Machine


def _shared() -> Machine:
    return Machine.up("test-shared")


def _plain(name: str) -> Machine:
    machine = Machine.up(f"test-{name}", wait=False)
    probe.gate_up(machine)
    return machine


def _other() -> Machine:
    return _plain("other")


def _fragile() -> Machine:
    return _plain("fragile")


def _offline() -> Machine:
    machine = Machine.up("test-offline", no_imds=True, wait=False)
    probe.settled(machine)
    return machine


MAKERS = {"shared": _shared, "other": _other, "fragile": _fragile, "offline": _offline}


class Fleet:
    """The machines that the collected tests ask for, two at a time, in the order above."""

    def __init__(self, wanted: set[str]) -> None:
        self._pool = ThreadPoolExecutor(max_workers=2)
        self._made: dict[str, Future[Machine]] = {}
        for name, make in MAKERS.items():
            if name in wanted:
                Machine(names.place(f"test-{name}")).down()  # what an interrupted run left
                self._made[name] = self._pool.submit(make)

    def get(self, name: str) -> Machine:
        return self._made[name].result()

    def down(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for name in self._made:
            Machine(names.place(f"test-{name}")).down()
