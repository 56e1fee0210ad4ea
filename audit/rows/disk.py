"""Controls that need a kernel of the machine's own: the figures of the last ``make test-disk``.

The machine that is audited shares its host's kernel. What no disk has shown is listed as untested,
with the command that tests it; what it has, with the commit where that is another than today's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from appliance.files import write_atomic
from audit.row import Row, judged, untested
from machine import steps
from machine.instance import Machine
from machine.names import CHECKOUT

FIGURES = CHECKOUT / "build/disk.json"
WHY = "the machine shares its host's kernel: `make test-disk` boots one with its own"
# Name in the file -> control, tool, bar.
CONTROLS = {
    "boot": ("a disk boots from its own loader", "EFI, GRUB", "serves an embedding"),
    "reboot": ("and again, as the same instance", "systemctl reboot", "same secrets"),
    "sysctl": ("sysctl: kernel.*, fs.*, vm.*, net.*", "sysctl", "as in sysctl.d"),
    "users": ("users' ways into the kernel", "as a user", "all refused"),
    "modules": ("kernel modules nobody needs", "modprobe", "none loads"),
    "cores": ("a crash writes no memory to disk", "crashes", "no core"),
    "audit": ("auditd's rules for the secrets' paths", "auditctl", "loaded, reads recorded"),
    "apparmor": (
        "AppArmor around nginx and infinity",
        "aa-status",
        "refuses nothing needed",
    ),
    "share": ("CPUWeight=", "busy loops on one core", "the model's > 2x"),
    "tasks": ("TasksMax=", "a fork bomb", "bounded, answers"),
    "memory": ("MemoryMax=", "a hog", "killed, answers"),
}


def rows(_: Machine) -> Iterator[Row]:
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    commit = str(kept.get("commit", ""))
    when = "" if commit == steps.current_commit() else f" (at {commit[:9]})"
    for name, (control, tool, bar) in CONTROLS.items():
        if found := kept.get("measured", {}).get(name):
            yield judged(control, tool, bar, found["measured"] + when, passed=found["passed"])
        else:
            yield untested(control, tool, bar, WHY)


def forget() -> None:
    """Before a run: what an older one measured counts no more."""
    FIGURES.unlink(missing_ok=True)


def note(name: str, measured: str, *, passed: bool) -> None:
    """Write down one figure of a run, whatever the next ones come to."""
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"measured": {}}
    kept["commit"] = steps.current_commit()
    kept["measured"][name] = {"measured": measured, "passed": passed}
    FIGURES.parent.mkdir(exist_ok=True)
    write_atomic(FIGURES, json.dumps(kept, indent=2) + "\n", 0o644)
