"""Folders of wheels for a Python version, each file checked against its pinned hash."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache
from machine.interpreter import pip

LOCKS = cache.REPO / "packer/locks"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
TORCH = "2.14.1+cpu"
# What pip may offer by its own configuration on a machine that cannot reach PyTorch's index.
TORCH_FALLBACK = "2.13.0+cpu"

# The wheels that the glibc of every supported system can load: 2.36 is Debian 12's.
PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
]

CUDA = re.compile(r"(nvidia|triton|cuda)", re.IGNORECASE)


def lock_file(name: str, python: str) -> Path:
    """The lock of a venv (server, appliance, dev) for a Python version such as 3.11.

    Raises:
        ApplianceError: this Python version is not supported.
    """
    path = LOCKS / f"{name}-{python}.txt"
    if not path.is_file():
        raise ApplianceError(
            f"There are no pinned packages for Python {python}.",
            "Use Python 3.11, 3.12 or 3.13, or add the version in packer/locks/compile.sh.",
        )
    return path


def locked(name: str, python: str) -> Path:
    """Folder with every wheel of a lock."""
    lock = lock_file(name, python)
    target = cache.folder("wheels") / f"{name}-{python}-{cache.key(lock.read_text())}"

    def download(folder: Path) -> None:
        _download(folder, python, ["--require-hashes", "--requirement", str(lock)])
        refuse_cuda(folder)

    with cache.lock("wheels"):
        return cache.make_once(target, download, f"wheels {name} {python}")


def torch(python: str) -> Path:
    """Folder with one wheel: PyTorch's CPU build, from its own index or, failing that, pip's.

    Raises:
        ApplianceError: neither offers one for this Python version.
    """
    target = cache.folder("wheels") / f"torch-{python}-{cache.key(TORCH, TORCH_FALLBACK)}"
    with cache.lock("wheels"):
        make = functools.partial(_download_torch, python=python)
        return cache.make_once(target, make, f"wheel torch {python}")


def torch_version(folder: Path) -> str:
    """The version of the wheel in a folder that ``torch`` returned, such as 2.14.1+cpu."""
    (wheel,) = folder.glob("torch-*.whl")
    return wheel.name.split("-")[1]


def refuse_cuda(folder: Path) -> None:
    """Raise ApplianceError if a wheel in the folder belongs to a CUDA build of PyTorch."""
    for wheel in sorted(folder.glob("*.whl")):
        package, version = wheel.name.split("-")[:2]
        if CUDA.match(package) or (package == "torch" and not version.endswith("+cpu")):
            raise ApplianceError(
                f"{wheel.name} belongs to a CUDA build of PyTorch, which this image never takes.",
                "See packer/locks/overrides.in for how the locks keep it out.",
            )


def _download_torch(folder: Path, python: str) -> None:
    # Not to wait long for an index that is out of reach; a slow download is still waited for.
    index = ["--index-url", TORCH_INDEX, "--retries", "1", "--timeout", "20"]
    try:
        # The exact version with "+cpu" has no CUDA build under any index.
        _download(folder, python, [*index, f"torch=={TORCH}"])
    except ApplianceError:
        cache.say(f"{TORCH_INDEX} does not offer torch {TORCH} here: trying {TORCH_FALLBACK}.")
        _download_torch_fallback(folder, python)
    refuse_cuda(folder)


def _download_torch_fallback(folder: Path, python: str) -> None:
    try:
        _download(folder, python, [f"torch=={TORCH_FALLBACK}"])
    except ApplianceError as error:
        raise ApplianceError(
            f"No CPU build of PyTorch for Python {python} can be reached from here: neither "
            f"{TORCH} from {TORCH_INDEX}, nor {TORCH_FALLBACK} from where pip looks.",
            "Let this machine reach that index, or put such a wheel into a folder and name the "
            "folder in PIP_FIND_LINKS.",
        ) from error


def _download(folder: Path, python: str, wanted: list[str]) -> None:
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    abi = "cp" + python.replace(".", "")
    run(
        [
            *pip(),
            *("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", folder),
            *("--implementation", "cp", "--python-version", python),
            *("--abi", abi, "--abi", "abi3", "--abi", "none", *platforms, *wanted),
        ],
        timeout=None,
        hint="Python packages are downloaded by pip with its own configuration; try again "
        "when the network is back.",
    )
