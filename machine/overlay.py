"""The machine's root filesystem: the image's layers below, what the machine wrote on top."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine.names import Place


def mount(place: Place, layers: Sequence[Path]) -> None:
    """Mount the root filesystem; nothing when it is mounted already.

    ``layers`` are the image's, lowest (the distribution) first.
    """
    if place.merged.is_mount():
        return
    for layer in layers:
        if not layer.is_dir():
            raise ApplianceError(
                f"The machine's image layer {layer} is gone.",
                f"Take it down with `python3 -m machine down --name {place.name}`, then up again.",
            )
    for folder in (place.upper, place.work, place.merged):
        folder.mkdir(parents=True, exist_ok=True)
    place.upper.chmod(0o755)
    run(["mount", "-t", "overlay", place.full, "-o", options(place, layers), place.merged])


def options(place: Place, layers: Sequence[Path]) -> str:
    """What overlayfs is told; it wants the uppermost of the lower layers first."""
    lower = ":".join(str(layer) for layer in reversed(layers))
    if any(mark in f"{lower}{place.folder}" for mark in ",\\") or lower.count(":") >= len(layers):
        raise ApplianceError(
            f"The path of a layer ({lower}) has a comma, colon or backslash.",
            "Choose another folder with INFINITY_APPLIANCE_CACHE.",
        )
    folders = f"lowerdir={lower},upperdir={place.upper},workdir={place.work}"
    return f"{folders},metacopy=off,redirect_dir=off"  # as the layers were made


def unmount(place: Place) -> None:
    if place.merged.is_mount():
        run(["umount", "--lazy", place.merged])


def clone(source: Place, target: Place) -> None:
    """Copy what a machine wrote, as a disk snapshot does: whiteouts and attributes included."""
    if not source.upper.is_dir():
        raise ApplianceError(
            f"There is no machine {source.name!r} to clone.",
            "`python3 -m machine list` shows which there are.",
        )
    target.folder.mkdir(parents=True, exist_ok=True)
    run(["sync", "--file-system", source.upper], timeout=None)
    run(["cp", "--archive", "--reflink=auto", source.upper, target.upper], timeout=None)
