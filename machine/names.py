"""Where a machine's things are, and what they are called; pure.

A machine belongs to a checkout: two checkouts on one host may each have a ``main`` and
neither sees the other's.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError

CHECKOUT = Path(__file__).resolve().parent.parent
DEFAULT = "main"


def cache_root(environment: Mapping[str, str] = os.environ, uid: int | None = None) -> Path:
    """The folder of everything that is kept between runs."""
    if chosen := environment.get("INFINITY_APPLIANCE_CACHE"):
        return Path(chosen).absolute()
    if (os.geteuid() if uid is None else uid) == 0:
        return Path("/var/cache/infinity-appliance")
    home = Path(environment.get("HOME") or "~").expanduser()
    return home / ".cache/infinity-appliance"


@dataclass(frozen=True)
class Place:
    """One machine's name on this host, and its folder.

    ``full`` names its namespaces, control group and folder; 7 hex digits say whose it is.
    """

    name: str
    full: str
    folder: Path

    @property
    def upper(self) -> Path:
        """What the machine wrote: the upper layer, kept over reboots."""
        return self.folder / "upper"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def merged(self) -> Path:
        """The mounted root filesystem."""
        return self.folder / "root"

    @property
    def record(self) -> Path:
        return self.folder / "machine.json"

    @property
    def metadata(self) -> Path:
        """What the emulator serves, when the user gave no file of their own."""
        return self.folder / "metadata.json"

    @property
    def defaults(self) -> Path:
        return self.folder / "metadata-defaults.json"

    @property
    def key(self) -> Path:
        """The private half of the launch key pair."""
        return self.folder / "launch-key"

    @property
    def certificate(self) -> Path:
        """A copy of its certificate, where anyone on the host can read it."""
        return CHECKOUT / "build" / f"{self.name}.crt"

    @property
    def console(self) -> Path:
        return self.folder / "console.log"

    @property
    def supervisor(self) -> Path:
        """Which process supervises; likewise ``nspawn`` and ``emulator``."""
        return self.folder / "supervisor.pid"

    @property
    def nspawn(self) -> Path:
        return self.folder / "nspawn.pid"

    @property
    def emulator(self) -> Path:
        return self.folder / "emulator.pid"

    @property
    def router(self) -> str:
        return f"{self.full}-r"

    @property
    def inside(self) -> str:
        """The network namespace of the machine itself."""
        return f"{self.full}-m"


def machines_root() -> Path:
    return cache_root() / "machines"


def place(name: str, checkout: Path = CHECKOUT, root: Path | None = None) -> Place:
    """The place of the machine ``name`` of this checkout.

    Raises:
        ApplianceError: the name cannot be a host name.
    """
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", name):
        raise ApplianceError(
            f"{name!r} cannot name a machine.",
            "Use up to 32 lower-case letters, digits and hyphens.",
        )
    full = f"{name}-{tag(checkout)}"
    return Place(name, full, (root or machines_root()) / full)


def every_place() -> list[Place]:
    """The places of this checkout's machines, made or half-made."""
    ending = f"-{tag()}"
    return [
        place(folder.name.removesuffix(ending))
        for folder in sorted(machines_root().glob(f"*{ending}"))
    ]


def tag(checkout: Path = CHECKOUT) -> str:
    return "i" + hashlib.sha256(str(checkout).encode()).hexdigest()[:6]
