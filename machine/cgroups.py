"""A control group of the machine's own, on whichever hierarchies the host has.

Three kinds of host:

* systemd is PID 1: it owns the tree, so the machine runs in a scope of systemd's with
  ``Delegate=yes``, which hands all controllers down and makes MemoryMax= work inside.
* version 2 alone, no systemd: a group below the root, memory, pids and cpu handed down.
* version 1 with a bare version 2 beside it ("hybrid"): a group on both; the controllers
  belong to version 1, so MemoryMax= inside the machine has no effect there.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine.names import Place

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids", "cpu")


def managed_by_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def hierarchies(root: Path = ROOT) -> tuple[Path, ...]:
    """The roots in which the machine needs a group: version 2's, and systemd's on hybrid."""
    if (root / "cgroup.procs").exists():
        return (root,)
    if (root / "unified/cgroup.procs").exists():
        named = root / "systemd"
        return (root / "unified", named) if (named / "cgroup.procs").exists() else ()
    return ()


def create(name: str) -> None:
    """Make the machine's group anew, empty."""
    remove(name)
    for root in hierarchies():
        _hand_down(root)
        (root / name).mkdir()


def _hand_down(root: Path) -> None:
    control = root / "cgroup.subtree_control"
    if control.exists():
        offered = (root / "cgroup.controllers").read_text().split()
        for controller in set(CONTROLLERS).intersection(offered):
            with contextlib.suppress(OSError):  # a container's own root may hold processes
                control.write_text(f"+{controller}")


def join(name: str) -> None:
    """Move the calling process into the group."""
    for root in hierarchies():
        (root / name / "cgroup.procs").write_text(str(os.getpid()))


def scope(place: Place) -> str:
    return f"infinity-{place.full}.scope"


def scope_argv(place: Place) -> list[str]:
    """The prefix that starts a command in a scope of the host's systemd."""
    return ["systemd-run", "--quiet", "--scope", "--collect", "--property=Delegate=yes",
            f"--unit={scope(place)}", "--"]  # fmt: skip


def kill(place: Place) -> None:
    """Kill every process of the machine, wherever it hides."""
    if managed_by_systemd():
        run(["systemctl", "kill", "--signal=KILL", scope(place)], check=False)
    for root in hierarchies():
        with contextlib.suppress(OSError):
            (root / place.full / "cgroup.kill").write_text("1")


def remove(name: str, patience: float = 5.0) -> None:
    """Remove the group and all below it; waits for its killed processes to be gone."""
    deadline = time.monotonic() + patience
    for root in hierarchies():
        top = root / name
        while top.is_dir():
            for path, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(path)
            if top.is_dir() and time.monotonic() > deadline:
                raise ApplianceError(
                    f"The control group {top} still has processes.",
                    "See its cgroup.procs; `down` again once they are gone.",
                )
            if top.is_dir():
                time.sleep(0.02)
