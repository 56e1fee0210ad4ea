"""Machines for the tests of every folder, and whether this computer can boot any."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any

import pytest
from fleet import MAKERS, Fleet

from machine import host
from machine.instance import Machine
from tests.division import Division


@functools.cache
def why_no_machine() -> str:
    return host.why_no_machine()


def require_machine() -> None:
    """Skip a test that needs a machine where none can be booted; under CI=true, fail it."""
    if reason := why_no_machine():
        message = f"no machine can be booted here: {reason}"
        if os.environ.get("CI") == "true":
            pytest.fail(message, pytrace=False)
        pytest.skip(message)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Division:  # noqa: ANN401 - as it is
    return Division(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Decide before a fixture boots anything."""
    if item.get_closest_marker("boot"):
        require_machine()


@pytest.fixture(scope="session")
def machine_host() -> None:
    """For a fixture that boots machines: this computer can."""
    require_machine()


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
