"""Which formats of weights are served, and whether a folder has them."""

from __future__ import annotations

import os
from pathlib import Path

from appliance.errors import ApplianceError

SAFE = "*.safetensors"
# Pickles: reading one can run code. Only with --allow-pickle.
PICKLED = "pytorch_model*.bin"


def present(snapshot: Path, *, allow_pickle: bool) -> bool:
    """Whether the folder holds weights that may be read (a link that leads nowhere holds none)."""
    patterns = (SAFE, PICKLED) if allow_pickle else (SAFE,)
    return any(file.is_file() for pattern in patterns for file in snapshot.glob(pattern))


def absent(repo: str) -> ApplianceError:
    """What to say of a model without them."""
    return ApplianceError(
        f"{repo} has no weights in the safetensors format.",
        "Only safetensors is served, because other formats can run code when they are read: choose "
        "a model that has it, or see --allow-pickle (user guide, step 10).",
    )


def check_readable(snapshot: Path, repo: str) -> None:
    """Say it plainly when files that somebody copied here are not this user's to read.

    Raises:
        ApplianceError: one is not (the libraries would call it missing).
    """
    for path in (snapshot, *snapshot.rglob("*")):
        if os.access(path, os.F_OK) and not os.access(path, os.R_OK):
            raise ApplianceError(
                f"The model {repo} cannot be read: {path} is there, but not for this user.",
                "`chown -R infinity: /var/lib/infinity/hf` gives the cache to the server's user.",
            )
