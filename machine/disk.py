"""``python3 -m machine disk``: the image as a disk that boots by itself, from EFI firmware.

    sector 2048    EFI system partition, FAT: GRUB, which looks for the root by its label
    then           the root filesystem, ext4: the image's layers, with a kernel's on top

Everything is written into a sparse file; nothing is attached as a device, and the one mount is
seen by its own process only.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache, host
from machine.build import Image
from machine.layers import ALONE, Stack, mount_options
from machine.names import CHECKOUT

DEFAULT = CHECKOUT / "build/disk.raw"
TOOLS = {"sfdisk": "fdisk", "mkfs.ext4": "e2fsprogs", "mformat": "mtools", "mcopy": "mtools"}
MIB = 1 << 20
SECTOR = 512
SIZE = 8192 * MIB  # of the file, which takes only what is written of it
ESP_START, ESP_SIZE = MIB, 64 * MIB
ROOT_START = ESP_START + ESP_SIZE
ROOT_SIZE = SIZE - ROOT_START - MIB  # the last MiB holds the partition table's copy
ROOT_LABEL = "infinity-root"  # machine/kernel-layer.sh's boot loader looks for it
TABLE = f"""\
label: gpt
unit: sectors
start={ESP_START // SECTOR}, size={ESP_SIZE // SECTOR}, type=uefi, name=ESP
start={ROOT_START // SECTOR}, size={ROOT_SIZE // SECTOR}, type=linux, name={ROOT_LABEL}
"""


def make(image: Image, path: Path) -> None:
    """Write the disk.

    Args:
        image: one that was built with its kernel.
        path: the file to be; replaced when it is there.

    Raises:
        ApplianceError: a tool is missing or failed; there is no such file then.
    """
    host.install(TOOLS)
    started = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    try:
        with path.open("wb") as file:
            file.truncate(SIZE)
        run(["sfdisk", "--quiet", path], stdin=TABLE)
        with tempfile.TemporaryDirectory(dir=cache.folder("machines"), prefix=".disk-") as made:
            _fill(image, path, Path(made))
    except (ApplianceError, KeyboardInterrupt):
        path.unlink(missing_ok=True)
        raise
    cache.progress("disk", started)


def _fill(image: Image, path: Path, folder: Path) -> None:
    for name in ("root", "work", "merged"):
        (folder / name).mkdir()
    options = mount_options(Stack(image.key, image.layers), folder)
    run(
        [*ALONE, Path(__file__).with_name("fill-disk.sh"), options, folder / "merged", path,
         ROOT_LABEL, str(ROOT_START), str(ROOT_SIZE // 1024), str(ESP_START),
         str(ESP_SIZE // SECTOR)],
        timeout=None,
        hint="Is there room on the disk? It takes some 3 GiB.",
    )  # fmt: skip
