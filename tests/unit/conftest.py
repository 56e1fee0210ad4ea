"""Gates, one shared and one a test, and an instance's disk before and after first boot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from firstboot_support import Disk
from gate_harness import Gate, running_gate
from gate_stub import Stub


@pytest.fixture(scope="session")
def shared_stub() -> Iterator[Stub]:
    with Stub() as stub:
        yield stub


@pytest.fixture(scope="session")
def shared_gate(tmp_path_factory: pytest.TempPathFactory, shared_stub: Stub) -> Iterator[Gate]:
    with running_gate(tmp_path_factory.mktemp("gate") / "root", shared_stub.port) as gate:
        yield gate


@pytest.fixture
def stub(shared_stub: Stub) -> Stub:
    """The stub with an empty record."""
    shared_stub.seen.clear()
    return shared_stub


@pytest.fixture
def gate(shared_gate: Gate, stub: Stub) -> Gate:  # noqa: ARG001 - empties the record
    return shared_gate


@pytest.fixture
def own_stub() -> Iterator[Stub]:
    with Stub() as stub:
        yield stub


@pytest.fixture
def own_gate(tmp_path: Path, own_stub: Stub) -> Iterator[Gate]:
    with running_gate(tmp_path / "root", own_stub.port) as gate:
        yield gate


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """As the image has it."""
    return Disk.fresh(tmp_path / "root")


@pytest.fixture
def booted(disk: Disk) -> Disk:
    disk.boot()
    return disk
