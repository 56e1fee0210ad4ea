"""Two builds of one state of the checkout, compared file by file.

    python3 -m machine reproduce [--layer NAME]

The second build makes every layer again, or those from NAME up, from the same downloads (wheels,
model), in a cache of its own that goes afterwards. What may differ is listed below and, for
readers, in docs/security.md; anything else fails.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from appliance.errors import ApplianceError
from appliance.run import run
from machine import build, cache, layers
from machine.build import Image
from machine.layers import Stack
from machine.names import cache_root

# Reason -> paths. Times of files are not compared at all: each build has its own.
MAY_DIFFER: Mapping[str, str] = {
    "bytecode carries the time of its source": r".+/__pycache__/.+\.pyc",
    "times of installation": (
        r"/var/(lib/(dpkg/(status|info/.+)|apt/extended_states)|cache/(ldconfig/aux-cache|debconf/.+))"
        r"|/var/lib/ucf/.*|/var/lib/systemd/deb-systemd-helper-enabled/.*|/etc/\.pwd\.lock"
    ),
    "the day of the last change of a password": r"/etc/shadow",
}
SHARED = ("wheels", "models", "venvs", "apt-bookworm", "apt-trixie", "apt-noble")


def reproduce(first_layer: str | None) -> int:
    """Build twice, print what differs; 1 if any of it is not on the list."""
    first = build.build()
    with TemporaryDirectory(prefix="reproduce-", dir=cache_root()) as folder:
        second = _again(first, Path(folder), first_layer)
        differing = compare(_files(first, Path(folder) / "a"), _files(second, Path(folder) / "b"))
    unexpected = [path for path in differing if reason(path) is None]
    for text, pattern in MAY_DIFFER.items():
        found = [path for path in differing if re.fullmatch(pattern, path)]
        print(f"{len(found):6} differ as expected: {text}")
    for path in unexpected:
        print(f"differs: {path}: {differing[path]}")
    print(f"{len(unexpected)} of {len(differing)} differing files are not on the list")
    return 1 if unexpected else 0


def reason(path: str) -> str | None:
    """Why this path may differ, or None."""
    return next((why for why, known in MAY_DIFFER.items() if re.fullmatch(known, path)), None)


def compare(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Path -> what is different, for every path that is not the same in both."""
    differing = dict.fromkeys(first.keys() - second.keys(), "only in the first")
    differing |= dict.fromkeys(second.keys() - first.keys(), "only in the second")
    differing |= {
        path: f"{first[path]} and {second[path]}"
        for path in first.keys() & second.keys()
        if first[path] != second[path]
    }
    return dict(sorted(differing.items()))


def _again(first: Image, second_cache: Path, first_layer: str | None) -> Image:
    """The same image with layers of its own from ``first_layer`` up."""
    names = [path.parent.name.rpartition("-")[0] for path in first.layers]
    if first_layer not in {None, *names}:
        raise ApplianceError(
            f"There is no layer {first_layer!r}.", f"Take one of {', '.join(names)}."
        )
    kept = names.index(first_layer) if first_layer else 0
    (second_cache / "layers").mkdir()
    for layer in first.layers[:kept]:
        (second_cache / "layers" / layer.parent.name).symlink_to(layer.parent)
    for name in SHARED:
        if (folder := cache_root() / name).exists():
            (second_cache / name).symlink_to(folder)
    environment = {**os.environ, "INFINITY_APPLIANCE_CACHE": str(second_cache)}
    run([sys.executable, "-m", "machine", "build"], cwd=cache.REPO, env=environment, timeout=None)
    made = tuple(second_cache / "layers" / layer.parent.name / "root" for layer in first.layers)
    return Image(made, first.key, first.suite, first.model)


def _files(image: Image, folder: Path) -> dict[str, str]:
    """Path -> kind, mode, owner and content of everything in an image."""
    for name in ("root", "work", "merged"):
        (folder / name).mkdir(parents=True)
    merged = folder / "merged"
    options = layers.mount_options(Stack("", image.layers), folder)
    run(["mount", "-t", "overlay", "reproduce", "-o", options, merged])
    try:
        return {
            f"/{path.relative_to(merged)}": describe(path) for path in sorted(merged.rglob("*"))
        }
    finally:
        run(["umount", merged])


def describe(path: Path) -> str:
    """One line that two equal files share: mode, owner, and what is in it."""
    status = path.lstat()
    who = f"{stat.filemode(status.st_mode)} {status.st_uid}:{status.st_gid}"
    if path.is_symlink():
        return f"{who} -> {path.readlink()}"
    if path.is_file():
        with path.open("rb") as file:
            return f"{who} {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    return who
