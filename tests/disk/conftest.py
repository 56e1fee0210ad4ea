"""The disk, made and booted once; its first boot runs for real."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from audit.rows import disk as figures
from machine import names
from machine.build import build
from machine.virtual import Virtual

NAME = "disk"
# Seconds: emulated, on two cores that others use as well.
PATIENCE = 1500.0


@pytest.fixture(scope="session")
def started() -> float:
    figures.forget()
    return time.monotonic()


@pytest.fixture(scope="session")
def booted(machine_host: None, started: float) -> Iterator[Virtual]:  # noqa: ARG001 - their order
    """Its first boot is done and nginx answers; the model, emulated, takes minutes more."""
    image = build(kernel=True)
    try:
        made = Virtual.up(NAME, image)
        made.wait_for("/healthz", PATIENCE)
        yield made
    finally:
        Virtual(names.place(NAME)).down()


@pytest.fixture(scope="session")
def serving(booted: Virtual) -> Virtual:
    """Ready. The tests run in the order of their files: the last ones hurt it and reboot it."""
    booted.wait_ready(PATIENCE)
    return booted
