"""Virtual environments on the host, made once for each state of their locks."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache, wheels
from machine.interpreter import MADE, PYTHON, create, place


def host_venv(kind: Literal["serve", "dev"]) -> Path:
    """A virtual environment for this host's Python; its programs are in ``bin/``.

    ``serve`` holds what the image's two hold: Infinity with PyTorch's CPU build, and the
    appliance's own needs. ``dev`` holds the tests' and linters' needs and sees ``serve``
    through a .pth file. The checkout itself is in neither: run from its folder.

    Raises:
        ApplianceError: this Python is not supported, or a download failed.
    """
    names = ("server", "appliance") if kind == "serve" else ("dev",)
    locks = [wheels.lock_file(name, PYTHON) for name in names]
    below = host_venv("serve") if kind == "dev" else None
    contents = [lock.read_text() for lock in locks]
    path = place(kind, *contents, wheels.TORCH, str(below))
    with cache.lock(f"venv-{kind}"):
        if not (path / MADE).exists():
            cache.say(f"Making the {kind} environment in {path} ...")
            _fill(path, names, locks, below)
            (path / MADE).touch()
    return path


def _fill(path: Path, names: tuple[str, ...], locks: list[Path], below: Path | None) -> None:
    folders = [wheels.locked(name, PYTHON) for name in names]
    torch = wheels.torch(PYTHON) if below is None else None
    create(path)
    for lock, folder in zip(locks, folders, strict=True):
        _install(path, folder, "--require-hashes", "--requirement", str(lock))
    if torch is not None:
        _install(path, torch, f"torch=={wheels.torch_version(torch)}")
        _check_cpu(path)
    if below is not None:
        (packages(path) / "serve.pth").write_text(f"{packages(below)}\n")


def packages(venv: Path) -> Path:
    """The site-packages folder of an environment made here."""
    return venv / f"lib/python{PYTHON}/site-packages"


def _install(path: Path, folder: Path, *wanted: str) -> None:
    words = ["install", "--quiet", "--no-deps", "--no-index", "--find-links", str(folder)]
    run(
        [path / "bin/python", "-m", "pip", "--disable-pip-version-check", *words, *wanted],
        timeout=None,
    )


def _check_cpu(path: Path) -> None:
    found = run([path / "bin/python", "-I", "-c", "import torch; print(torch.version.cuda)"])
    if found.stdout.strip() != "None":
        raise ApplianceError(
            f"The PyTorch in {path} is a CUDA build.", f"Remove {wheels.torch(PYTHON)}."
        )
