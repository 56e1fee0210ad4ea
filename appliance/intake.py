"""Reading the files that an operator names on a command line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from appliance.errors import ApplianceError

LARGEST = 1 << 20  # bytes; a chain with its comments is a few KiB


def read(path: Path, *, secret: bool = False) -> bytes:
    """All of a regular file.

    Args:
        path: it, or a link to it.
        secret: demand that nobody but its owner and group may open it.

    Raises:
        ApplianceError: it cannot be read, is something else, or is too large or too open.
    """
    try:
        # What is checked is what is read; and a named pipe does not hold us up.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file's name"
        raise ApplianceError(f"{path} cannot be read: {why}.", "Name a readable file.") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ApplianceError(f"{path} is no regular file.", "Name a file that holds it.")
        if found.st_size > LARGEST:
            raise ApplianceError(f"{path} is larger than 1 MiB.", "Name the PEM file itself.")
        if secret and found.st_mode & stat.S_IRWXO:
            raise ApplianceError(
                f"Every user of this machine may open {path}.", f"Run `chmod 600 {path}` first."
            )
        return os.read(descriptor, LARGEST)
    finally:
        os.close(descriptor)
