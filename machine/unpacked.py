"""Programs of the distribution's packages without installing those: downloaded and unpacked.

For who may not install, and for nginx, whose package would start a server on port 80.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache


def find(program: str, package: str) -> Path:
    """The program on this computer, else the package's, kept in the cache.

    Raises:
        ApplianceError: it is not there, and the package cannot be had or does not run here.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin"
    if found := shutil.which(program, path=path):
        return Path(found)
    hint = f"Install {package}, or put {program} on PATH."
    with cache.lock("tools"):
        folder = cache.make_once(
            cache.folder("tools") / package,
            lambda into: _unpack(package, into, hint),
        )
    unpacked = next(path for path in folder.glob(f"usr/*bin/{program}"))
    if "not found" in run(["ldd", unpacked], hint=hint).stdout:
        raise ApplianceError(f"{program} needs libraries that are not installed.", hint)
    return unpacked


def _unpack(package: str, into: Path, hint: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        download = ["download", package]
        done = run(["apt-get", "-qq", *download], cwd=folder, check=False, timeout=None, hint=hint)
        if done.returncode != 0:  # the package lists are empty or old, and only root renews them
            own = _own_lists(folder)
            run(["apt-get", "-qq", *own, "update"], timeout=None, hint=hint)
            run(["apt-get", "-qq", *own, *download], cwd=folder, timeout=None, hint=hint)
        (archive,) = folder.glob(f"{package}_*.deb")
        run(["dpkg-deb", "--extract", archive, into], hint=hint)


def _own_lists(folder: Path) -> list[str]:
    """Options that keep all that apt writes in a folder of ours."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    state = (f"Dir::State::Lists={folder}/lists", f"Dir::Cache={folder}/cache")
    return [word for option in (*state, "APT::Sandbox::User=") for word in ("-o", option)]
