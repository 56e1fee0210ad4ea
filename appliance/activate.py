"""New files in place of old ones, tested; the old ones back when anything fails or is cut off.

A change is undone by whoever comes next: before the first file is replaced, a list of all is on
disk and the old ones are kept aside under a second name. Renaming the list is the moment from which
the change stands; under its new name it says what is still to be cleared away.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance import units
from appliance.errors import ApplianceError
from appliance.files import (
    TEMPORARY_SUFFIX,
    remove,
    remove_temporaries,
    sync_directory,
    write_atomic,
)
from appliance.gate import Gate


@dataclass(frozen=True)
class NewFile:
    """What a file shall be; ``owner`` is (uid, gid), and None as ``data`` means that it goes."""

    path: Path
    data: str | bytes | None = field(repr=False)
    mode: int
    owner: tuple[int, int]

    def write(self) -> None:
        if self.data is None:
            remove(self.path)
        else:
            write_atomic(self.path, self.data, self.mode, self.owner)


@dataclass(frozen=True)
class NewLink:
    """Where a symbolic link shall lead."""

    path: Path
    target: str

    def write(self) -> None:
        made = self.path.with_name(f".{self.path.name}.link{TEMPORARY_SUFFIX}")
        remove(made)
        made.symlink_to(self.target)
        os.replace(made, self.path)
        sync_directory(self.path.parent)


Change = NewFile | NewLink


@contextmanager
def activated(files: Sequence[Change], gate: Gate) -> Iterator[None]:
    """Write the files in order, have nginx test and take them; then the body may check more.

    Whatever fails, here or in the body, every file is as it was before and a running nginx
    is back on the old ones; a run that is killed leaves that to ``undo``. The way back needs
    no free space: the old files are kept as hard links. A model server that was restarted since
    is restarted once more.

    Raises:
        ApplianceError: what failed.
    """
    paths = [file.path for file in files]
    try:
        _clear(gate)
        remove_leftovers(paths)  # what is aside must not be of an earlier change
        _write_list(gate, paths)
        for path in paths:
            _set_aside(path)
    except BaseException:
        _finish(gate)
        raise
    reloaded = False
    try:
        for file in files:
            file.write()
        gate.test()
        if gate.running():
            reloaded = True
            gate.reload()
        yield
    except BaseException:
        undo(gate, reload=reloaded)
        raise
    _finish(gate)


def undo(gate: Gate, *, reload: bool = True) -> bool:
    """Take back the change that the list on disk tells of, if there is one.

    One that stands is cleared up after. Only for who holds the lock of the changes. It can be cut
    off and repeated.

    Args:
        gate: whose change.
        reload: whether a running nginx may have taken the new files.

    Returns:
        Whether there was a change to take back.

    Raises:
        ApplianceError: the files are as they were, but nginx does not take them: something
            else is wrong with its configuration.
    """
    remove_temporaries(gate.paths.change)
    listed = _listed(gate.paths.change)
    if listed is None:
        _clear(gate)
        return False
    for path, existed in listed["files"]:
        _put_back(Path(path), existed=existed)
    try:
        if listed["server"] != _server(gate, _paths(listed)):
            units.restart(units.SERVER, wait=False)  # at boot it comes after us
        if reload and gate.running():
            gate.reload()
    except ApplianceError:
        _finish(gate)
        raise
    _finish(gate)
    return True


def remove_leftovers(paths: Sequence[Path]) -> None:
    """Delete what a run that was killed has left beside these files: it may hold secrets."""
    for path in paths:
        remove_temporaries(path)
        remove(_aside(path))


def _finish(gate: Gate) -> None:
    """From here on, what is there stands. It needs no free space."""
    with suppress(FileNotFoundError):
        os.replace(gate.paths.change, gate.paths.finished)
        sync_directory(gate.paths.state)
    _clear(gate)


def _clear(gate: Gate) -> None:
    """Delete the old files of a change that stands, if some are left."""
    if finished := _listed(gate.paths.finished):
        remove_leftovers(_paths(finished))
        remove(gate.paths.finished)


def _write_list(gate: Gate, paths: Sequence[Path]) -> None:
    listed = [[str(path), os.path.lexists(path)] for path in paths]
    change = {"files": listed, "server": _server(gate, paths)}
    write_atomic(gate.paths.change, json.dumps(change), 0o600)


def _listed(path: Path) -> dict[str, Any] | None:
    try:
        listed: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    return listed


def _paths(listed: dict[str, Any]) -> list[Path]:
    return [Path(path) for path, _ in listed["files"]]


def _server(gate: Gate, paths: Sequence[Path]) -> str:
    """Which run of the model server it is, by systemd's id; "" when the change is not about it."""
    if not gate.is_service or not {gate.paths.server_env, gate.paths.venv} & {*paths}:
        return ""
    return units.show(units.SERVER, "InvocationID")["InvocationID"]


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.before")


def _set_aside(path: Path) -> None:
    """Give the file a second name, if there is one."""
    try:
        os.link(path, _aside(path), follow_symlinks=False)  # a link is kept as the link it is
        sync_directory(path.parent)
    except FileNotFoundError:
        return  # new: putting back is removing
    except OSError as error:
        raise ApplianceError(
            f"{path} could not be kept aside: {error.strerror}.",
            "Check the free space with `df -h` and `df -i`.",
        ) from error


def _put_back(path: Path, *, existed: bool) -> None:
    aside = _aside(path)
    if not existed:
        remove(path)
    elif os.path.lexists(aside):  # lexists: a link that leads nowhere is put back too
        os.replace(aside, path)
        remove(aside)  # rename(2) does nothing where both still are one file
        sync_directory(path.parent)
