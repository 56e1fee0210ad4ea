"""The cache of models, in the model hub's own layout: what is in it, and one more laid in.

``models--OWNER--NAME/{blobs,refs,snapshots}``: a snapshot is a folder named by its commit, of
links into ``blobs``; a file in ``refs`` gives the commit of a branch.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.files import sync_directory, write_atomic

_PREFIX = "models--"
# Where a model is put together before it gets its name; a name that no model has.
DOWNLOADING, IMPORTING = ".downloading", ".importing"


@dataclass(frozen=True)
class Cached:
    """One revision of one model; ``refs`` are the names that stand for it."""

    repo: str
    commit: str
    refs: tuple[str, ...]
    snapshot: Path

    @property
    def files(self) -> list[str]:
        """The paths of its files, relative to the snapshot."""
        found = (path for path in self.snapshot.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.snapshot)) for path in found)

    @property
    def size(self) -> int:
        """Bytes."""
        return sum((self.snapshot / name).stat().st_size for name in self.files)


def folder(hub: Path, repo: str) -> Path:
    """Where a model is kept."""
    return hub / f"{_PREFIX}{repo.replace('/', '--')}"


def cached(hub: Path) -> Iterator[Cached]:
    """Every revision of every model in the cache."""
    for model in sorted(hub.glob(f"{_PREFIX}*")):
        refs = list(_refs(model))
        for snapshot in sorted((model / "snapshots").glob("*")):
            names = tuple(name for name, commit in refs if commit == snapshot.name)
            repo = model.name.removeprefix(_PREFIX).replace("--", "/")
            yield Cached(repo, snapshot.name, names, snapshot)


def _refs(model: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((model / "refs").rglob("*")):
        if path.is_file():
            yield str(path.relative_to(model / "refs")), path.read_text("utf-8", "replace").strip()


def lay_in(building: Path, hub: Path, repo: str, commit: str, ref: str) -> None:
    """Move a model that was put together in ``building`` to where the server looks for it.

    The revision appears whole, in one step, or not at all. ``building`` is the model's folder,
    on the same file system, with ``blobs`` and ``snapshots/COMMIT``; it is gone afterwards.

    Args:
        building: see above.
        hub: the cache.
        repo: the model's id.
        commit: the revision.
        ref: the branch or tag that stands for it from now on; "" for none.
    """
    target = folder(hub, repo)
    _sync(building)
    for name in ("blobs", "snapshots", "refs"):
        (target / name).mkdir(parents=True, exist_ok=True)
    for blob in (building / "blobs").iterdir():
        os.replace(blob, target / "blobs" / blob.name)
    sync_directory(target / "blobs")
    final = target / "snapshots" / commit
    aside = building / "replaced"
    if final.exists():
        final.rename(aside)
    (building / "snapshots" / commit).rename(final)
    sync_directory(final.parent)
    if ref:
        (target / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target / "refs" / ref, commit, 0o644)
    shutil.rmtree(building)


def _sync(building: Path) -> None:
    """All of it on disk, so that after a power cut no name leads to half a file."""
    for path in building.rglob("*"):
        if path.is_symlink():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
