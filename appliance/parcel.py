"""A model as one tar: a manifest with the sha256 of every file, then the files.

The first member is ``manifest.json``: {"format": 1, "id", "revision", "ref", "files": {path:
{"sha256", "size"}}}. After it come exactly those files, as ``files/PATH``, in that order. Whoever
made a tar is not trusted: nothing in it decides where something is written but names that were
checked, and nothing of it is seen by the server before all of it was.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any

from appliance.errors import ApplianceError
from appliance.serving import config

FORMAT = 1
MANIFEST, FILES = "manifest.json", "files/"
LONGEST_MANIFEST = 4 * 2**20  # bytes
MOST_FILES = 2000
COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 _.+-]{0,127}")  # of a path: no dot first, no slash
_CHUNK = 2**20


@dataclass(frozen=True)
class Content:
    """What a file of a model must be."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """A model at one revision; ``ref`` is the branch or tag it was kept under, or ""."""

    id: str
    revision: str
    ref: str
    files: dict[str, Content]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(content.size for content in self.files.values())

    def text(self) -> str:
        files = {
            name: {"sha256": content.sha256, "size": content.size}
            for name, content in self.files.items()
        }
        whole = {"format": FORMAT, "id": self.id, "revision": self.revision, "ref": self.ref}
        return json.dumps({**whole, "files": files}, indent=1) + "\n"


class Guarded:
    """A file from which no single read takes more than a manifest: a header cannot ask for more."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LONGEST_MANIFEST:
            raise refused("a header asks for too much")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def refused(why: str) -> ApplianceError:
    return ApplianceError(
        f"The file is not a model as `infinity-model export` writes it: {why}.",
        "Make it again on the other instance, and compare both files with `sha256sum`.",
    )


def members(file: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """The plain files of a tar, in order, each with its content.

    Raises:
        ApplianceError: there is anything else in it, or it is no tar.
    """
    guarded: Any = Guarded(file)
    try:
        with tarfile.open(fileobj=guarded, mode="r:") as tar:
            for member in tar:
                plain = member.type in {tarfile.REGTYPE, tarfile.AREGTYPE}
                if not plain or member.sparse is not None or member.pax_headers:
                    raise refused(f"{member.name[:200]!r} is no plain file")
                content = tar.extractfile(member)
                if content is None:
                    raise refused(f"{member.name[:200]!r} has no content")
                yield member, content
            guarded.seek(tar.offset)
    except (tarfile.TarError, EOFError, ValueError, UnicodeError, OverflowError) as error:
        raise refused(str(error) or "it is no tar") from error
    if any(guarded.read(LONGEST_MANIFEST)) or guarded.read(1):
        raise refused("something follows its end")


def manifest(member: tarfile.TarInfo, content: IO[bytes]) -> Manifest:
    """The first member.

    Raises:
        ApplianceError: it is not a manifest that this version understands.
    """
    if member.name != MANIFEST or member.size > LONGEST_MANIFEST:
        raise refused("it does not begin with a manifest")
    try:
        raw = json.loads(content.read(LONGEST_MANIFEST), object_pairs_hook=_once)
        if raw["format"] != FORMAT:
            raise refused(f"its format {str(raw['format'])[:20]} is another")
        files = {
            str(name): Content(str(entry["sha256"]), int(entry["size"]))
            for name, entry in raw["files"].items()
        }
        said = Manifest(str(raw["id"]), str(raw["revision"]), str(raw["ref"]), files)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise refused("its manifest cannot be read") from error
    _check(said)
    return said


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object in which no name stands twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _check(said: Manifest) -> None:
    if not config.MODEL_ID.fullmatch(said.id):
        raise refused(f"{said.id[:200]!r} is not a model id")
    if not COMMIT.fullmatch(said.revision):
        raise refused("its revision is no commit")
    if said.ref and not config.REVISION.fullmatch(said.ref):
        raise refused(f"{said.ref[:200]!r} is no branch or tag")
    if not 0 < len(said.files) <= MOST_FILES:
        raise refused(f"it has {len(said.files)} files")
    for name, content in said.files.items():
        check_name(name)
        if not _SHA256.fullmatch(content.sha256) or content.size < 0:
            raise refused(f"what it says of {name!r} cannot be")
    folders = {str(parent) for name in said.files for parent in PurePosixPath(name).parents}
    if folders & {*said.files}:
        raise refused("a file is a folder as well")


def check_name(name: str) -> None:
    """Refuse a path that could lead out of a model's folder, or that is not written plainly.

    Raises:
        ApplianceError: says so.
    """
    if len(name) > 255 or not all(_PART.fullmatch(part) for part in name.split("/")):  # noqa: PLR2004 - NAME_MAX
        raise refused(f"{name[:200]!r} is no name of a model's file")


def copy(content: IO[bytes], wanted: Content, name: str, into: IO[bytes]) -> None:
    """Copy a member's content, which has to be what the manifest says.

    Raises:
        ApplianceError: it is not.
    """
    digest, left = hashlib.sha256(), wanted.size
    while left:
        chunk = content.read(min(left, _CHUNK))
        if not chunk:
            raise refused(f"{name!r} is cut off")
        digest.update(chunk)
        into.write(chunk)
        left -= len(chunk)
    if digest.hexdigest() != wanted.sha256:
        raise refused(f"{name!r} differs from its sha256")
