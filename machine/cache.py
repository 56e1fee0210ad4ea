"""What is expensive to make is made once: entries named by a key of all that went into them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from appliance.errors import ApplianceError
from machine.names import cache_root

REPO = Path(__file__).resolve().parent.parent

KEY_DIGITS = 16
TEMPORARY = ".making-"


def say(line: str) -> None:
    """One line of progress."""
    print(line, flush=True)


def progress(what: str, started: float | None = None) -> None:
    """One line of progress for a part of the build, with its seconds if it had to be made."""
    took = "cached" if started is None else f"{time.monotonic() - started:6.1f} s"
    say(f"  {what:<24} {took:>8}")


def key(*parts: str) -> str:
    """A short digest of the parts; two different lists of parts never run together."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        digest.update(b"%d:" % len(raw) + raw)
    return digest.hexdigest()[:KEY_DIGITS]


def digest_files(*paths: Path) -> str:
    """Digest of files, and of all files below folders: their names, executable bits and content.

    What Python leaves behind when it runs is no content. A path that is not there counts
    as empty, so that a folder may come to be later.
    """
    digest = hashlib.sha256()
    for given in paths:
        for path in _files(given):
            name = path.relative_to(given.parent)
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name} {os.access(path, os.X_OK)} {content}\n".encode())
    return digest.hexdigest()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if path.is_file() else []
    below = (file for file in path.rglob("*") if "__pycache__" not in file.parts)
    return sorted(file for file in below if file.is_file())


def folder(name: str) -> Path:
    """A folder of the cache, made if it is missing.

    Raises:
        ApplianceError: the cache cannot be written.
    """
    path = cache_root() / name
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ApplianceError(
            f"{path} cannot be made: {error.strerror}.",
            "Choose a folder of yours with INFINITY_APPLIANCE_CACHE.",
        ) from error
    return path


def make_once(path: Path, make: Callable[[Path], None], what: str = "") -> Path:
    """Return ``path``, filled by ``make`` in a temporary folder beside it if it is not there.

    The folder gets its name only when ``make`` has returned: an interruption, even a power
    cut, leaves no half entry. Call it with the lock of what is made held. Prints a line of
    progress about ``what``, if it is given: what is found by the way has nobody who reads one.
    """
    if path.is_dir():
        if what:
            progress(what)
        return path
    started = time.monotonic()
    sweep(path.parent)
    making = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=path.parent))
    try:
        making.chmod(0o755)
        make(making)
        making.rename(path)
    finally:
        remove(making)
    if what:
        progress(what, started)
    return path


def sweep(parent: Path) -> None:
    """Remove what builds left that could not clean up after themselves."""
    for stale in parent.glob(f"{TEMPORARY}*"):
        remove(stale)


def remove(path: Path) -> None:
    """Delete a folder if it is there.

    Raises:
        ApplianceError: something is mounted in it, and deleting would reach into that.
    """
    mounted = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    if inside := [point for point in mounted if Path(point).is_relative_to(path)]:
        raise ApplianceError(
            f"{path} cannot be deleted: {inside[-1]} is mounted.",
            f"Unmount it: umount {inside[-1]}",
        )
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold a lock of the cache; wait for another process that has it, and say so."""
    path = folder("locks") / name
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"Waiting for another process that is making the same ({name}) ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
