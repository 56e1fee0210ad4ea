#!/usr/bin/env python3
"""Prints the build manifest: what an image was made from and what came to be in it, as JSON.

    record.py REPO COMMIT

It runs in the image and reads what is installed there. No time and no name of a machine is in
it, so that two builds of one commit can be compared by it. It needs nothing but Python.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import sys
import tomllib
from pathlib import Path

HUB = Path("/var/lib/infinity/hf/hub")
BILLS = Path("/usr/share/infinity/sbom")
VENVS = {
    "server": Path("/opt/infinity/venv"),
    "appliance": Path("/opt/infinity/appliance/venv"),
}


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def python_packages(venv: Path) -> dict[str, str]:
    """Name -> version of what is installed, by its metadata folders."""
    found = venv.glob("lib/python3.*/site-packages/*.dist-info")
    pairs = (folder.name.removesuffix(".dist-info").rsplit("-", 1) for folder in found)
    return {name: version for name, version in sorted(pairs)}  # noqa: C416 - two strings each


def debian_packages() -> dict[str, str]:
    """Name -> version of what dpkg has installed."""
    wanted = "${db:Status-Abbrev}\t${Package}\t${Version}\n"
    argv = ["dpkg-query", "--show", f"--showformat={wanted}"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    rows = (line.split("\t") for line in said.splitlines())
    return {name: version for state, name, version in sorted(rows) if state.strip() == "ii"}


def models(hub: Path) -> list[dict[str, object]]:
    """Every model in the hub cache with its revision, and its files' sha256 as they are now."""
    found: list[dict[str, object]] = []
    for snapshot in sorted(hub.glob("models--*/snapshots/*")):
        files = sorted(path for path in snapshot.rglob("*") if path.is_file())
        name = snapshot.parent.parent.name.removeprefix("models--").replace("--", "/")
        sums = {str(path.relative_to(snapshot)): sha256(path) for path in files}
        found.append({"id": name, "revision": snapshot.name, "files": sums})
    return found


def manifest(repo: Path, commit: str) -> dict[str, object]:
    project = tomllib.loads((repo / "pyproject.toml").read_text())["project"]
    release = platform.freedesktop_os_release()
    python = ".".join(platform.python_version_tuple()[:2])
    locks = (repo / f"packer/locks/{name}-{python}.txt" for name in ("server", "appliance", "sbom"))
    return {
        "name": project["name"],
        "version": project["version"],
        "commit": commit,
        "system": f"{release['ID']} {release['VERSION_ID']}",
        "python": platform.python_version(),
        "locks": {path.name: sha256(path) for path in locks},
        "models": models(HUB),
        "packages": {
            **{name: python_packages(venv) for name, venv in VENVS.items()},
            "system": debian_packages(),
        },
        "sbom": {path.name: sha256(path) for path in sorted(BILLS.glob("*.json"))},
    }


def main() -> int:
    _, repo, commit = sys.argv
    print(json.dumps(manifest(Path(repo), commit), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
