"""A model out of the cache into a tar, and out of a tar into the cache of another instance."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from appliance import hub as cache
from appliance import parcel
from appliance.errors import ApplianceError
from appliance.hub import Cached
from appliance.parcel import Content, Manifest

SPARE = 512 * 2**20  # bytes of the disk that an import leaves free


@contextmanager
def as_user(user: tuple[int, int] | None) -> Iterator[None]:
    """Read and write files as this (uid, gid), with nothing of root's; None changes nothing.

    The cache is the server's: root would follow a link that the server put there.
    """
    if user is None:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(user[1])
    os.seteuid(user[0])
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def find(hub: Path, given: str) -> Cached:
    """The revision of a model that the cache has.

    Args:
        hub: the cache.
        given: owner/name, or owner/name@revision with a commit, branch or tag.

    Raises:
        ApplianceError: it is not there.
    """
    repo, _, revision = given.partition("@")
    revisions = [model for model in cache.cached(hub) if model.repo == repo]
    wanted = [
        model for model in revisions if (revision or "main") in {model.commit, *model.refs}
    ] or (revisions if not revision and len(revisions) == 1 else [])
    if not wanted:
        raise ApplianceError(
            f"{given} is not in the cache.",
            "`infinity-model list` shows what is, `infinity-model pull` brings it.",
        )
    return wanted[0]


def described(model: Cached, ref: str) -> Manifest:
    """The manifest of a model in the cache."""
    files = {}
    for name in model.files:
        parcel.check_name(name)
        path = model.snapshot / name
        with path.open("rb") as file:
            files[name] = Content(hashlib.file_digest(file, "sha256").hexdigest(), _size(file))
    if not parcel.COMMIT.fullmatch(model.commit):
        raise ApplianceError(f"{model.commit!r} is no commit.", "Pull the model again.")
    return Manifest(model.repo, model.commit, ref, files)


def write(model: Cached, out: IO[bytes]) -> Manifest:
    """Write a model as a tar.

    Returns:
        What is in it.
    """
    ref = "main" if "main" in model.refs else next(iter(model.refs), "")
    said = described(model, ref)
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        text = said.text().encode()
        _add(tar, parcel.MANIFEST, len(text), io.BytesIO(text))
        for name, content in said.files.items():
            with (model.snapshot / name).open("rb") as file:
                _add(tar, parcel.FILES + name, content.size, file)
    return said


def read(file: IO[bytes], hub: Path) -> Manifest:
    """Check a tar and lay its model into the cache, whole or not at all.

    Returns:
        What was in it.

    Raises:
        ApplianceError: it is not what its manifest says, or the disk has no room for it.
    """
    building = hub / cache.IMPORTING
    shutil.rmtree(building, ignore_errors=True)  # of a run that was killed
    try:
        said = _unpack(file, hub, building)
        cache.lay_in(building, hub, said.id, said.revision, said.ref)
    except tarfile.TarError as error:  # the content of a member that is cut off
        raise parcel.refused(str(error)) from error
    except OSError as error:
        raise ApplianceError(
            f"The model could not be laid into {hub}: {error.strerror}.",
            "Check the free space with `df -h`.",
        ) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return said


def _unpack(file: IO[bytes], hub: Path, building: Path) -> Manifest:
    found = parcel.members(file)
    first = next(found, None)
    if first is None:
        raise parcel.refused("it is empty")
    said = parcel.manifest(*first)
    _check_room(said, hub)
    blobs, snapshot = building / "blobs", building / "snapshots" / said.revision
    blobs.mkdir(parents=True)
    left = iter(said.files.items())
    for member, content in found:
        name, wanted = next(left, ("", Content("", 0)))
        if member.name != parcel.FILES + name or not name:
            raise parcel.refused(f"{member.name[:200]!r} is not expected there")
        if member.size != wanted.size:
            raise parcel.refused(f"{name!r} is not as large as it says")
        with (blobs / wanted.sha256).open("wb") as blob:
            parcel.copy(content, wanted, name, blob)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blobs / wanted.sha256, link.parent))
    missing = [name for name, _ in left]
    if missing:
        raise parcel.refused(f"{missing[0]!r} is missing")
    return said


def _check_room(said: Manifest, hub: Path) -> None:
    free = shutil.disk_usage(hub).free
    if free < said.size + SPARE:
        raise ApplianceError(
            f"The model is {said.size / 1e6:.0f} MB, and the disk has {free / 1e6:.0f} MB free, of "
            f"which {SPARE / 1e6:.0f} MB stay free.",
            "Enlarge the volume, or free some space.",
        )


def _add(tar: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)  # no owner, no time: one model, one tar
    member.size = size
    tar.addfile(member, content)


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size
