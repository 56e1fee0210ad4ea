"""Writing files so that a reader, or a power cut, sees the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from appliance.errors import ApplianceError

TEMPORARY_SUFFIX = ".new"


def write_atomic(
    path: Path, data: str | bytes, mode: int, owner: tuple[int, int] | None = None
) -> None:
    """Replace ``path`` with ``data`` in one step.

    The content is on disk, with its final mode and owner, before the name points at it:
    a secret is never readable for an instant by someone who may not read it, and after a
    power cut the name refers to the old file or to the whole new one.

    Args:
        path: where; its folder must exist.
        data: text (encoded as UTF-8) or bytes.
        mode: permission bits, such as 0o600.
        owner: (uid, gid); None keeps that of this process.

    Raises:
        ApplianceError: the file could not be written (no space, no permission); the old
            content is untouched and no temporary file stays behind.
    """
    raw = data.encode() if isinstance(data, str) else data
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=TEMPORARY_SUFFIX
        )
        with os.fdopen(descriptor, "wb") as file:
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_directory(path.parent)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):  # the first error is the one to tell
                os.unlink(temporary)
        raise ApplianceError(
            f"{path} could not be written: {error.strerror}.",
            "Check the free space with `df -h` and `df -i`, and the folder's permissions.",
        ) from error


def remove(path: Path) -> None:
    """Delete a file for good, or do nothing when it is not there."""
    try:
        path.unlink()
        sync_directory(path.parent)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ApplianceError(
            f"{path} could not be removed: {error.strerror}.", "Check the folder's permissions."
        ) from error


def remove_tree(path: Path) -> None:
    """Delete a folder with all that is in it, or do nothing when it is not there."""
    if path.is_symlink():
        return remove(path)
    try:
        shutil.rmtree(path)
        sync_directory(path.parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ApplianceError(
            f"{path} could not be removed: {error.strerror}.", "Check the folder's permissions."
        ) from error
    return None


def remove_temporaries(path: Path) -> None:
    """Delete what writes of ``path`` that were killed have left beside it.

    Only for who knows that nobody is writing it now: under the lock of its writers.
    """
    for temporary in path.parent.glob(f".{path.name}.*{TEMPORARY_SUFFIX}"):
        remove(temporary)


def sync_directory(path: Path) -> None:
    """Make a rename or removal in this folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
