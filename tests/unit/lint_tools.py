"""Finding the linters. One that is missing is a failure with a hint, never a skip."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
# Not ours, or not source.
LEFT_OUT = {".git", "build", "__pycache__", "node_modules", ".venv"}


def tool(name: str, hint: str) -> str:
    """The path of a program: beside this Python (in its venv), on PATH, or among root's."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join([here, os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    found = shutil.which(name, path=path)
    if not found:
        pytest.fail(f"{name} is not installed: {hint}")
    return found


def sources() -> Iterator[Path]:
    """Every file of the repository that somebody wrote."""
    for folder, folders, files in os.walk(REPO):
        folders[:] = [f for f in folders if f not in LEFT_OUT and not f.endswith("_cache")]
        yield from (Path(folder, name) for name in files)
