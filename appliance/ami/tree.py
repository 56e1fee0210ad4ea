"""A root filesystem to be judged: what is on that disk, without following it anywhere else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# Filled anew at each boot, never part of a disk's image.
NOT_ON_DISK = frozenset({"/proc", "/sys", "/dev", "/run"})
MAX_LINKS = 16
LARGEST_TEXT = 512 * 1024  # bytes; what people and programs configure is smaller


@dataclass(frozen=True)
class Finding:
    """One broken rule: ``path`` is as the instance would see it, ``why`` ends a sentence."""

    rule: str
    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.path}: {self.why}"


@dataclass(frozen=True)
class Entry:
    """A name on the disk with what lstat says of it."""

    path: str
    status: os.stat_result

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.status.st_mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    def below(self, *folders: str) -> bool:
        """Whether it is inside one of these folders."""
        return any(self.path.startswith(f"{folder}/") for folder in folders)


@dataclass(frozen=True)
class Tree:
    """The filesystem whose root is ``root``; other filesystems mounted in it are not seen."""

    root: Path

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every name on the disk, folders before what they hold."""
        return tuple(self._walk(Path(self.root), os.lstat(self.root).st_dev))

    def _walk(self, folder: Path, device: int) -> Iterator[Entry]:
        above = "" if folder == self.root else f"/{folder.relative_to(self.root)}"
        with os.scandir(folder) as names:
            for name in sorted(names, key=lambda found: found.name):
                path = f"{above}/{name.name}"
                entry = Entry(path, name.stat(follow_symlinks=False))
                # Only folders tell: overlayfs gives files the devices of their layers.
                mounted = entry.is_folder and entry.status.st_dev != device
                if path in NOT_ON_DISK or mounted:
                    continue
                yield entry
                if entry.is_folder:
                    yield from self._walk(Path(name.path), device)

    @cached_property
    def texts(self) -> tuple[Entry, ...]:
        """Every file that is small enough to hold a secret as text."""
        return tuple(
            entry
            for entry in self.entries
            if entry.is_file and 0 < entry.status.st_size <= LARGEST_TEXT
        )

    def below(self, *folders: str) -> Iterator[Entry]:
        """What is inside these folders."""
        return (entry for entry in self.entries if entry.below(*folders))

    def host(self, path: str) -> Path:
        """Where ``path`` is for this process, links resolved as the instance would.

        Raises:
            OSError: there is nothing, or links lead in a circle.
        """
        todo = [part for part in path.split("/") if part]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop(0)
            if part in {".", ".."}:
                done = done[:-1] if part == ".." else done
                continue
            here = Path(self.root, *done, part)
            if not here.is_symlink():
                done.append(part)
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(f"{path} is a circle of links")
            target = os.readlink(here)
            done = [] if target.startswith("/") else done
            todo = [step for step in target.split("/") if step] + todo
        return Path(self.root, *done)

    def read(self, path: str) -> bytes | None:
        """A file's content; None where there is none."""
        try:
            return self.host(path).read_bytes()
        except OSError:
            return None

    def content(self, entry: Entry) -> bytes:
        """The content of a file that ``entries`` has: no link leads to it."""
        with open(f"{self.root}{entry.path}", "rb") as file:
            return file.read()

    def lines(self, path: str) -> list[str]:
        """A file's lines; none where there is no file."""
        return (self.read(path) or b"").decode(errors="replace").splitlines()
