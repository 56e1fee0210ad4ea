"""What this computer can do: is it able to boot a machine, and what is missing?"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache, cgroups

MACHINE_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "sysctl": "procps",
    "nsenter": "util-linux",
    "mount": "mount",
    "ssh-keygen": "openssh-client",
    "curl": "curl",
}
# Numbers from linux/capability.h. nspawn's machine needs all; the last two are what
# IPAddressDeny= is made of, which would be ignored without a word.
CAPABILITIES = {
    "CAP_NET_ADMIN": 12,
    "CAP_SYS_ADMIN": 21,
    "CAP_MKNOD": 27,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
}
EVERY_ID = ["0", "0", "4294967295"]  # the identity mapping of the first user namespace


def why_no_machine() -> str:
    """Why no machine can be booted here, as the end of a sentence; "" when one can.

    Found by trying, each trial undone. As root, installs what is missing first.
    """
    checks: tuple[Callable[[], None], ...] = (
        _check_root,
        _check_capabilities,
        lambda: install(MACHINE_TOOLS),
        _check_overlay,
        _check_namespace,
        _check_cgroup,
    )
    for check in checks:
        try:
            check()
        except ApplianceError as error:
            return error.message.rstrip(".")
    return ""


def _check_root() -> None:
    if os.geteuid() != 0:
        raise ApplianceError("booting one needs root")
    if Path("/proc/self/uid_map").read_text().split() != EVERY_ID:
        raise ApplianceError("root here is root of a user namespace only")


def _check_capabilities() -> None:
    have = effective_capabilities(Path("/proc/self/status").read_text())
    if missing := [name for name, number in CAPABILITIES.items() if not have >> number & 1]:
        raise ApplianceError(f"this root has no {', '.join(missing)}, as in a container")


def effective_capabilities(status: str) -> int:
    """The bits of CapEff in a /proc/PID/status."""
    (line,) = (line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


def _check_overlay() -> None:
    """Where the machines' disks will be: overlayfs refuses, say, another overlayfs there."""
    with tempfile.TemporaryDirectory(dir=cache.folder("machines"), prefix=".probe-") as made:
        folder = Path(made)
        for name in ("lower", "upper", "work", "root"):
            (folder / name).mkdir()
        options = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
        _try(["mount", "-t", "overlay", "probe", "-o", options, folder / "root"],
             f"overlayfs cannot be mounted in {folder.parent}")  # fmt: skip
        run(["umount", folder / "root"])


def _check_namespace() -> None:
    name = f"probe-{os.getpid()}"
    _try(["ip", "netns", "add", name], "no network namespace can be made")
    run(["ip", "netns", "del", name])


def _check_cgroup() -> None:
    if not cgroups.hierarchies():
        raise ApplianceError("/sys/fs/cgroup has no cgroup version 2 hierarchy")
    try:
        cgroups.create(f"probe-{os.getpid()}")
    except OSError as error:
        raise ApplianceError(f"no control group can be made: {error.strerror}") from error
    finally:
        cgroups.remove(f"probe-{os.getpid()}")


def _try(argv: list[str | Path], otherwise: str) -> None:
    if run(argv, check=False).returncode != 0:
        raise ApplianceError(otherwise)


def missing(tools: Mapping[str, str]) -> list[str]:
    """The packages of those tools that are not there; tools maps a program to its package.

    A tool with a slash is a file that need not be a program.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

    def there(tool: str) -> bool:
        return Path(tool).exists() if "/" in tool else shutil.which(tool, path=path) is not None

    return sorted({name for tool, name in tools.items() if not there(tool)})


def install(tools: Mapping[str, str]) -> None:
    """Install with apt, as root, what is missing; says so in one line.

    Raises:
        ApplianceError: something is missing and this is not root, or apt is not there or failed.
    """
    if packages := missing(tools):
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise ApplianceError(
                f"{', '.join(packages)} must be installed first",
                f"As root: apt-get install {' '.join(packages)}",
            )
        cache.say(f"Installing with apt: {', '.join(packages)}")
        apt(["update"])
        apt(["install", "--yes", "--no-install-recommends", *packages])


def apt(words: Iterable[str]) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "-qq", *words], timeout=None, env=environment)
