"""The image itself, before its first boot: AWS Marketplace's rules, by our own scanner."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.ami import check
from appliance.run import run
from audit.row import Row, judged
from machine import build, layers
from machine.instance import Machine
from machine.layers import Stack


def rows(_: Machine) -> Iterator[Row]:
    with image() as root:
        found = check.check(root)
    measured = f"{len(found)} {'; '.join(map(str, found[:2]))}".strip()
    yield judged("the image's contents", "appliance.ami check", "no violation", measured,
                 passed=not found)  # fmt: skip


@contextmanager
def image() -> Iterator[Path]:
    """The built image's root filesystem, mounted; what is written there is not kept."""
    built = build.build()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in ("root", "work", "merged"):
            (folder / name).mkdir()
        options = layers.mount_options(Stack(built.key, built.layers), folder)
        run(["mount", "-t", "overlay", "audit-image", "-o", options, folder / "merged"])
        try:
            yield folder / "merged"
        finally:
            run(["umount", folder / "merged"])
