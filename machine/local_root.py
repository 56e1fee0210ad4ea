"""The folder that plays the root filesystem where the appliance runs as plain processes."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.files import write_atomic
from appliance.paths import Paths
from machine.model import Model
from machine.names import CHECKOUT

HOST = "infinity.localhost"  # RFC 6761: every name below localhost is this computer
FOLDERS = (
    "etc/cloudimg",
    "etc/infinity",
    "etc/ssl/infinity",
    "root",
    "run",
    "var/lib/infinity/hf",
    "var/lib/infinity-appliance",
    "var/lib/nginx",
    "var/log/nginx",
)


def check_writable(root: Path) -> None:
    """Raise ApplianceError unless this user can write there."""
    existing = next(path for path in (root, *root.parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ApplianceError(
            f"You may not write to {existing}, where the appliance would run.",
            "Run it in a clone of your own.",
        )


def lay_out(paths: Paths, chosen: Model) -> None:
    """Put in place what the image would hold; an identity that is there stays."""
    for name in FOLDERS:
        (paths.root / name).mkdir(parents=True, exist_ok=True)
    paths.root.chmod(0o700)
    shutil.copytree(CHECKOUT / "nginx", paths.nginx, dirs_exist_ok=True)
    hub = paths.model_cache / "hub"
    hub.unlink(missing_ok=True)
    hub.symlink_to(chosen.hub)
    template = (CHECKOUT / "packer/infinity.env").read_text()
    write_atomic(paths.server_env, template.replace("\nMODEL=\n", f"\nMODEL={chosen.id}\n"), 0o644)
    if not metadata(paths).exists():
        document = {
            "instance-id": "i-0" + secrets.token_hex(8),
            "instance-type": "local",
            "public-hostname": HOST,
        }
        write_atomic(metadata(paths), json.dumps(document, indent=2) + "\n", 0o600)


def metadata(paths: Paths) -> Path:
    """What the emulator serves."""
    return paths.root / "metadata.json"


def server_environment(paths: Paths, port: int) -> dict[str, str]:
    """What infinity.service and its EnvironmentFile give the server."""
    lines = (line.strip() for line in paths.server_env.read_text().splitlines())
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    state = paths.root / "var/lib/infinity"
    return dict(pairs) | {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(state),
        "HF_HOME": str(paths.model_cache),
        "HF_HUB_OFFLINE": "1",
        "INFINITY_HOME": str(state),
        "INFINITY_PORT": str(port),
    }
