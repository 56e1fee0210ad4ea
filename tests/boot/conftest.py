"""Machines that several tests share; they boot in the background while earlier tests run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import probe
import pytest

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


@pytest.fixture(scope="session")
def fleet(request: pytest.FixtureRequest) -> Iterator[Fleet]:
    used = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    machines = Fleet(used & MAKERS.keys())
    try:
        yield machines
    finally:
        machines.down()


@pytest.fixture(scope="session")
def shared(fleet: Fleet) -> Machine:
    """Ready and serving; tests leave it as they found it."""
    return fleet.get("shared")


@pytest.fixture(scope="session")
def other(fleet: Fleet) -> Machine:
    """A second instance of the same image, whose name, keys and power tests may change."""
    return fleet.get("other")


@pytest.fixture(scope="session")
def fragile(fleet: Fleet) -> Machine:
    """For accidents: tests take its identity away and have it make another, its model unasked."""
    return fleet.get("fragile")


@pytest.fixture(scope="session")
def offline(fleet: Fleet) -> Machine:
    """Booted without a metadata service."""
    return fleet.get("offline")
