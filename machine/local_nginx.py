"""An nginx to run as a plain process: the host's, or unpacked from the distribution's package.

Never installed: the package would start a server on port 80 of this computer.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache

HINT = "Install nginx, or put an nginx on PATH."


def find() -> Path:
    """The nginx program.

    Raises:
        ApplianceError: there is none, and the package cannot be downloaded.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin"
    if found := shutil.which("nginx", path=path):
        return Path(found)
    with cache.lock("nginx"):
        folder = cache.make_once(cache.folder("tools") / "nginx", _unpack, "nginx, unpacked")
    program = folder / "usr/sbin/nginx"
    run([program, "-v"], hint=HINT)
    return program


def _unpack(into: Path) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if run(_download(), cwd=folder, check=False, timeout=None, hint=HINT).returncode != 0:
            _download_with_own_lists(folder)
        packages = list(folder.glob("nginx*.deb"))
        if len(packages) != 1:
            raise ApplianceError("apt downloaded no nginx package.", HINT)
        run(["dpkg-deb", "--extract", packages[0], into], hint=HINT)


def _download(*options: str) -> list[str]:
    return ["apt-get", "-qq", *options, "download", "nginx"]


def _download_with_own_lists(folder: Path) -> None:
    """The computer's package lists are empty or stale, and only root may renew them."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    options = [
        f"-oDir::State::Lists={folder}/lists",
        f"-oDir::Cache={folder}/cache",
        "-oAPT::Sandbox::User=",
    ]
    run(["apt-get", "-qq", *options, "update"], timeout=None, hint=HINT)
    run(_download(*options), cwd=folder, timeout=None, hint=HINT)
