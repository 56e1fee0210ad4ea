"""The appliance's root filesystem for this computer, built by packer's own scripts in layers."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache
from machine.layers import ALONE_WITH_CHILDREN, Stack, add, put
from machine.model import model
from machine.steps import (
    appliance_step,
    kernel_step,
    model_step,
    packages_step,
    python_step,
    record_step,
    sbom_step,
)

PYTHONS = {"bookworm": "3.11", "trixie": "3.13", "noble": "3.12"}
COMPONENTS = {"noble": "main,universe"}
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}


@dataclass(frozen=True)
class Image:
    """A root filesystem as overlayfs layers.

    Attributes:
        layers: the folders, lowest first; they are never written again.
        key: changes when anything in the image may have changed.
        suite: the distribution's release: bookworm, trixie or noble.
        model: the id of the model it serves.
    """

    layers: tuple[Path, ...]
    key: str
    suite: str
    model: str


def build(suite: str | None = None, *, kernel: bool = False) -> Image:
    """Build what is missing and return the image; a second call takes under a second.

    Args:
        suite: bookworm, trixie or noble; else the environment's SUITE, else what the host is.
        kernel: with a layer more, that of a disk which boots by itself.

    Raises:
        ApplianceError: not root, a tool or a supported release is missing, or a step failed.
    """
    chosen = suite or os.environ.get("SUITE") or host_suite()
    check(chosen)
    with cache.lock("build"):
        cache.say(f"Image of {chosen}:")
        started = time.monotonic()
        chosen_model = model()
        # The steps first: what they cannot download is known before anything is built.
        steps = [
            packages_step(chosen),
            python_step(PYTHONS[chosen]),
            sbom_step(PYTHONS[chosen]),
            model_step(chosen_model),
            appliance_step(),
            *([kernel_step(chosen)] if kernel else []),
            record_step(),
        ]
        stack = functools.reduce(add, steps, base(chosen))
        cache.progress("all", started)
    if chosen_model.stand_in:
        cache.say(f"The model hub is out of reach: this image serves {chosen_model.id}.")
    return Image(stack.layers, stack.key, chosen, chosen_model.id)


def host_suite() -> str:
    """The release that this host's images follow: Ubuntu 24.04 on Ubuntu, else Debian's."""
    release = platform.freedesktop_os_release()
    if release.get("ID") == "ubuntu":
        return "noble"
    return release["VERSION_CODENAME"] if release.get("VERSION_CODENAME") in PYTHONS else "bookworm"


def check(suite: str) -> None:
    """Raise ApplianceError if this build cannot succeed; nothing has been done by then."""
    if suite not in PYTHONS:
        raise ApplianceError(
            f"SUITE={suite} is not supported.", f"Take one of {', '.join(PYTHONS)}."
        )
    if platform.machine() != "x86_64":
        raise ApplianceError(
            f"The appliance is an x86_64 image, and this computer is {platform.machine()}.",
            "Build it on an x86_64 computer.",
        )
    if os.geteuid() != 0:
        raise ApplianceError(
            "Building a machine's root filesystem needs root.",
            "Run it with sudo, or run the appliance as processes (make run MODE=processes).",
        )
    missing = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if missing:
        packages = " ".join(sorted(missing))
        raise ApplianceError(
            f"Building needs {packages}.", f"Install it: apt-get install {packages}"
        )


def base(suite: str) -> Stack:
    """The distribution's smallest system with systemd, from its default mirror."""
    include = "systemd-sysv,ca-certificates"
    options = ["--variant=minbase", f"--include={include}"]
    if suite in COMPONENTS:
        options.append(f"--components={COMPONENTS[suite]}")

    def make(into: Path) -> None:
        run(
            [
                *ALONE_WITH_CHILDREN,
                "mmdebstrap",
                "--quiet",
                "--mode=root",
                *options,
                suite,
                into / "root",
            ],
            timeout=None,
            hint="It downloads from the distribution's mirror; try again when that is reachable.",
        )

    return put(Stack(cache.key("base")), f"{suite}-base", tuple(options), make)
