"""New files in place of old ones, tested; the old ones back when anything fails."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.files import remove, remove_temporaries, sync_directory, write_atomic
from appliance.gate import Gate


@dataclass(frozen=True)
class NewFile:
    """What a file shall be; ``owner`` is (uid, gid)."""

    path: Path
    data: str | bytes = field(repr=False)
    mode: int
    owner: tuple[int, int]


@contextmanager
def activated(files: Sequence[NewFile], gate: Gate) -> Iterator[None]:
    """Write the files in order, have nginx test and take them; then the body may check more.

    Whatever fails, here or in the body, every file is as it was before and a running nginx
    is back on the old ones. The way back needs no free space: the old files are kept as
    hard links.

    Raises:
        ApplianceError: what failed.
    """
    running = gate.running()
    try:
        for file in files:
            _set_aside(file.path)
    except BaseException:
        remove_leftovers([file.path for file in files])
        raise
    try:
        for file in files:
            write_atomic(file.path, file.data, file.mode, file.owner)
        gate.test()
        if running:
            gate.reload()
        yield
    except BaseException:
        for file in files:
            _put_back(file.path)
        if running:
            gate.reload()
        raise
    for file in files:
        remove(_aside(file.path))


def remove_leftovers(paths: Sequence[Path]) -> None:
    """Delete what a run that was killed has left beside these files: it may hold secrets."""
    for path in paths:
        remove_temporaries(path)
        remove(_aside(path))


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.before")


def _set_aside(path: Path) -> None:
    remove(_aside(path))  # of an attempt that was killed
    try:
        os.link(path, _aside(path), follow_symlinks=False)  # a link is kept as the link it is
    except FileNotFoundError:
        pass  # new: putting back is removing
    except OSError as error:
        raise ApplianceError(
            f"{path} could not be kept aside: {error.strerror}.",
            "Check the free space with `df -h` and `df -i`.",
        ) from error


def _put_back(path: Path) -> None:
    aside = _aside(path)
    if os.path.lexists(aside):  # lexists: a link that leads nowhere is put back too
        os.replace(aside, path)
        remove(aside)  # rename(2) does nothing where both still are one file
        sync_directory(path.parent)
    else:
        remove(path)
