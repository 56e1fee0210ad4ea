"""How much memory a set of models needs, and how much there is."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.serving import weights

MEMINFO = Path("/proc/meminfo")
# MemoryMax= of infinity.service: the machine stays reachable whatever the model does.
SHARE = 0.85
BASE = 700 * 2**20  # bytes of a server before its models: Python, PyTorch, transformers
PACKED = 2.0  # the weights as read, and packed for the products
_HEADER_MAX = 100 * 2**20  # bytes; the format's own limit
_FLOAT = 4  # bytes: weights are served as float32


def needed(snapshots: Iterable[Path]) -> int:
    """Bytes that a server with these models will hold."""
    return BASE + int(PACKED * sum(map(_as_float32, snapshots)))


def available() -> int:
    """Bytes that programs can still take without anything being swapped or killed."""
    return _meminfo("MemAvailable")


def limit() -> int:
    """Bytes that the server may hold on this instance."""
    # Not from /proc/meminfo, which the download does not see.
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * SHARE)


def check(wanted: int) -> bool:
    """Whether a second server of ``wanted`` bytes fits beside the present one.

    Raises:
        ApplianceError: not even alone.
    """
    if wanted > limit():
        raise too_large(wanted)
    return wanted < available()


def demand(least: int) -> None:
    """Refuse, before it is downloaded, a model whose weights alone are too much.

    Args:
        least: their bytes.

    Raises:
        ApplianceError: says so.
    """
    if BASE + least > limit():
        raise too_large(BASE + least)


def too_large(wanted: int) -> ApplianceError:
    """What to say of ``wanted`` bytes that the server may not hold."""
    return ApplianceError(
        f"These models need about {wanted / 1e9:.1f} GB of memory, and the server may hold "
        f"{limit() / 1e9:.1f} GB here.",
        "Choose smaller models or a larger instance.",
    )


def _as_float32(snapshot: Path) -> int:
    """Bytes of a model's weights as they are served."""
    files = [path for path in snapshot.glob(weights.SAFE) if path.is_file()]
    if files:
        return sum(map(_numbers, files)) * _FLOAT
    return sum(path.stat().st_size for path in snapshot.glob(weights.PICKLED) if path.is_file())


def _numbers(path: Path) -> int:
    """How many a safetensors file holds, from its header; a broken one is left to the trial."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, _HEADER_MAX)))
        tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
        return sum(math.prod(tensor["shape"]) for tensor in tensors)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, struct.error):
        return path.stat().st_size // _FLOAT


def _meminfo(name: str) -> int:
    for line in MEMINFO.read_text("ascii").splitlines():
        key, _, rest = line.partition(":")
        if key == name:
            return int(rest.split()[0]) * 1024
    raise ApplianceError(f"{MEMINFO} does not say {name}.")
