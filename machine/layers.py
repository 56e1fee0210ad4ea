"""Image layers: each the overlayfs upper folder that one step of provisioning filled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache

# What a build starts ends with it, even when it is killed, and so do its mounts: each
# command has its own mount namespace and is killed when this process dies.
ALONE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private")
# For a command that would leave processes behind: the first process of a namespace takes
# all others with it.
ALONE_WITH_CHILDREN = (*ALONE, "--pid", "--fork", "--kill-child", "--mount-proc")
ENTER = Path(__file__).resolve().parent / "enter-layer.sh"
# Where the build's own folders appear inside. nspawn puts a fresh file system on /run, so
# not even the empty folders they are mounted on end up in the image.
INSIDE = Path("/run/build")
# What nspawn says at its end of a folder of its own, whatever the command said.
NSPAWN_NOISE = "Attempted to remove disk file system"


@dataclass(frozen=True)
class Stack:
    """Layers, lowest first, and the key of all that went into them."""

    key: str
    layers: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Step:
    """One step of a build.

    Attributes:
        name: for people, and in the name of its folder.
        inputs: all that decides the result, besides the layers below.
        commands: run inside in this order; paths below INSIDE are those of ``binds``.
        environment: for the commands.
        binds: name below INSIDE -> folder on the host, read-only inside.
        writable: folder inside -> folder on the host that the commands may fill.
    """

    name: str
    inputs: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, Path] = field(default_factory=dict)
    writable: Mapping[str, Path] = field(default_factory=dict)


def add(below: Stack, step: Step) -> Stack:
    """The stack with the step's layer on top, run only if that layer is not in the cache.

    Raises:
        ApplianceError: a command of the step failed; the layer does not exist then.
    """

    def make(into: Path) -> None:
        for name in ("root", "work", "merged"):
            (into / name).mkdir()
        for command in step.commands:
            _run_inside(into, below, step, command)
        cache.remove(into / "work")
        (into / "merged").rmdir()

    return put(below, step.name, step.inputs, make)


def put(below: Stack, name: str, inputs: tuple[str, ...], make: Callable[[Path], None]) -> Stack:
    """The stack with one more layer, the folder ``root`` in what ``make`` fills."""
    key = cache.key(below.key, name, *inputs)
    path = cache.folder("layers") / f"{name}-{key}"
    cache.make_once(path, lambda into: _make_durable(into, make), f"layer {name}")
    return Stack(key, (*below.layers, path / "root"))


def _make_durable(into: Path, make: Callable[[Path], None]) -> None:
    make(into)
    # The layer was mounted as volatile (nothing waited for the disk), so it is written out
    # once, before it gets its name.
    run(["sync", "--file-system", into], timeout=None)


def mount_options(below: Stack, into: Path) -> str:
    """Mount options for ``below`` under the folders ``root`` and ``work`` of ``into``.

    Redirects and metadata-only copies are off, whatever the kernel's default, so that a
    layer means the same under any later mount.
    """
    lower = ":".join(str(layer) for layer in reversed(below.layers))
    plain = "volatile,metacopy=off,redirect_dir=off"
    return f"lowerdir={lower},upperdir={into / 'root'},workdir={into / 'work'},{plain}"


def _run_inside(into: Path, below: Stack, step: Step, command: tuple[str, ...]) -> None:
    merged = into / "merged"
    log = cache.folder("logs") / f"{step.name}.log"
    # overlayfs refuses a work folder that an earlier volatile mount has used.
    cache.remove(into / "work")
    (into / "work").mkdir()
    done = run(
        [
            *ALONE,
            *(ENTER, log, mount_options(below, into), merged),
            *_nspawn(merged, step),
            *command,
        ],
        check=False,
        timeout=None,
        env={**os.environ, "SYSTEMD_NSPAWN_LOCK": "0"},
    )
    if done.returncode != 0:
        lines = log.read_text(errors="replace").splitlines()
        said = [line for line in lines if line.strip() and not line.startswith(NSPAWN_NOISE)]
        last = said[-1] if said else done.stderr.strip() or "it printed nothing"
        raise ApplianceError(
            f"The build step {step.name} failed with status {done.returncode}: {last}",
            f"The whole output is in {log}.",
        )


def _nspawn(root: Path, step: Step) -> list[str]:
    shared = [f"--bind-ro={host}:{INSIDE / name}" for name, host in step.binds.items()]
    writable = [f"--bind={host}:{inside}" for inside, host in step.writable.items()]
    environment = [f"--setenv={name}={value}" for name, value in step.environment.items()]
    return [
        *("systemd-nspawn", "--quiet", f"--directory={root}", "--machine=infinity-build"),
        *("--as-pid2", "--pipe"),
        # No service manager need run on the host, and no setting of the host's applies.
        *("--register=no", "--keep-unit", "--settings=no", "--link-journal=no"),
        *("--timezone=off", "--resolv-conf=replace-host"),
        *shared,
        *writable,
        *environment,
    ]
