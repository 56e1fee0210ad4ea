"""Which boot tests can run here: all, or none for a reason that is told."""

from __future__ import annotations

import functools
import os

import pytest

from machine import host


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


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Decide before a fixture boots anything."""
    if item.get_closest_marker("boot"):
        require_machine()


@pytest.fixture(scope="session")
def machine_host() -> None:
    """For a fixture that boots machines: this computer can."""
    require_machine()
