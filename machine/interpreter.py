"""The host's Python: its version, virtual environments made with it, and a pip to call."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
import tempfile
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MADE = ".complete"


def pip() -> list[str]:
    """How to call pip: the words that come before its own arguments."""
    path = place("pip")
    with cache.lock("venv-pip"):
        if not (path / MADE).exists():
            create(path)
            (path / MADE).touch()
    return [str(path / "bin/python"), "-m", "pip", "--disable-pip-version-check"]


def place(kind: str, *inputs: str) -> Path:
    """Where an environment of this interpreter with these inputs is, or will be."""
    interpreter = f"{sys.base_prefix} {sys.version} {sysconfig.get_platform()}"
    return cache.folder("venvs") / f"{kind}-{PYTHON}-{cache.key(interpreter, *inputs)}"


def create(path: Path) -> None:
    """Make an environment with pip and nothing else, in place of what is there.

    Where Debian's python3-venv is missing, root installs it, and anyone else gets pip out
    of the distribution's package without installing that.
    """
    # Not by make_once: the programs of an environment carry its path, so it cannot be renamed.
    cache.remove(path)
    if not _has_ensurepip() and os.geteuid() == 0:
        run(["apt-get", "-qq", "update"], timeout=None, check=False)
        run(["apt-get", "-qq", "install", "--yes", "python3-venv"], timeout=None)
        importlib.invalidate_caches()
    if _has_ensurepip():
        run([sys.executable, "-m", "venv", path], timeout=None)
        return
    run([sys.executable, "-m", "venv", "--without-pip", path], timeout=None)
    with tempfile.TemporaryDirectory() as folder:
        wheel = _debian_pip(Path(folder))
        python = path / "bin/python"
        run([python, f"{wheel}/pip", "install", "--quiet", "--no-index", wheel], timeout=None)


def _has_ensurepip() -> bool:
    """Debian and Ubuntu move it, and with it pip, into the package python3-venv."""
    return importlib.util.find_spec("ensurepip") is not None


def _debian_pip(folder: Path) -> Path:
    """A wheel of pip out of the distribution's package, which anyone may download and unpack."""
    hint = "Install python3-venv (`apt-get install python3-venv`) and try again."
    run(["apt-get", "-qq", "download", "python3-pip-whl"], cwd=folder, timeout=None, hint=hint)
    (package,) = folder.glob("*.deb")
    run(["dpkg-deb", "--extract", package, folder], hint=hint)
    found = sorted(folder.glob("usr/share/python-wheels/pip-*.whl"))
    if not found:
        raise ApplianceError("The package python3-pip-whl holds no pip.", hint)
    return found[-1]
