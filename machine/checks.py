"""``make test`` and its like: what they need, then the program in an environment of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from appliance.errors import ApplianceError
from machine import host, unpacked
from machine.build import build
from machine.names import CHECKOUT
from machine.venvs import host_venv

# The linters that are no Python packages, and what the tests call.
TOOLS = {
    "shellcheck": "shellcheck",
    "systemd-analyze": "systemd",
    "openssl": "openssl",
    "curl": "curl",
    "git": "git",
    "packer": "packer",
    "ssh": "openssh-client",
}
# What the tests of booted machines call besides: a slow client, a load balancer, a browser. Ubuntu
# has no package of the last one's name, only a snap: there any Chromium or Chrome on PATH will do.
SLOW_CLIENT = {"slowhttptest": "slowhttptest"}
BOOT_TOOLS = (SLOW_CLIENT, {"haproxy": "haproxy"}, {"chromium": "chromium"})
# Strangers' scanners, which only the audit calls.
AUDITORS = {
    "lynis": "lynis",
    "ssh-audit": "ssh-audit",
    "testssl": "testssl.sh",
}

# At most so many tests at a time: one with the machines, the others without.
WORKERS = 4


def test(arguments: Sequence[str]) -> int:
    """Replace this process by pytest with these arguments; does not return.

    As root, installs what is missing. Where a machine can be booted and its tests are asked
    for, the image is built first, with its progress to be seen.
    """
    if os.geteuid() == 0:
        host.install(TOOLS)
    python = host_venv("dev") / "bin/python"
    if wants_boot(arguments) and not host.why_no_machine():
        for tools in BOOT_TOOLS:
            with contextlib.suppress(ApplianceError):  # the tests that need it say so, and fail
                host.install(tools)
        build()
    _become([str(python), "-m", "pytest", *(arguments or _side_by_side())])
    return 0


def bench(arguments: Sequence[str]) -> int:
    """Replace this process by the benchmark; does not return."""
    _become([str(host_venv("dev") / "bin/python"), "-m", "tests.bench", *arguments])
    return 0


def soak(arguments: Sequence[str]) -> int:
    """Replace this process by the load of minutes; does not return.

    Raises:
        ApplianceError: no machine can be booted here, which is what is loaded.
    """
    if reason := host.why_no_machine():
        raise ApplianceError(
            f"No machine can be booted here: {reason}.", "Load one as root on Linux."
        )
    build()
    _become([str(host_venv("dev") / "bin/python"), "-m", "tests.soak", *arguments])
    return 0


def ami(arguments: Sequence[str]) -> int:
    """Replace this process by the AMI's build or publication; does not return."""
    _become([str(host_venv("dev") / "bin/python"), "-m", "appliance.ami", *arguments])
    return 0


def audit(arguments: Sequence[str]) -> int:
    """Replace this process by the audit; does not return.

    Raises:
        ApplianceError: no machine can be booted here, which is what is audited.
    """
    if reason := host.why_no_machine():
        raise ApplianceError(f"No machine can be booted here: {reason}.", "Audit as root on Linux.")
    host.install(TOOLS | SLOW_CLIENT | AUDITORS)
    _become([str(host_venv("dev") / "bin/python"), "-m", "audit", *arguments])
    return 0


def fleet(arguments: Sequence[str]) -> int:
    """Replace this process by the rehearsal of a fleet; does not return.

    Raises:
        ApplianceError: no machine can be booted here, and a fleet is made of them.
    """
    if reason := host.why_no_machine():
        raise ApplianceError(f"No machine can be booted here: {reason}.", "Use root on Linux.")
    build()
    _become([str(host_venv("dev") / "bin/python"), "-m", "tests.fleet", *arguments])
    return 0


def wants_boot(arguments: Sequence[str]) -> bool:
    """Whether boot tests may be among what pytest is asked to run."""
    places = [word for word in arguments if not word.startswith("-")]
    return not places or any("tests/unit" not in place for place in places)


def _side_by_side() -> list[str]:
    """All tests: those of machines, which wait a lot, beside the others."""
    workers = min(len(os.sched_getaffinity(0)), WORKERS)
    return ["--numprocesses", str(workers), "--dist", "loadscope"]


def _become(argv: list[str]) -> None:
    os.chdir(CHECKOUT)
    os.execve(argv[0], argv, {**os.environ, **_environment()})  # noqa: S606 - no shell is meant


def _environment() -> dict[str, str]:
    """Where the programs are that are only unpacked."""
    folders = [os.environ.get("PATH", os.defpath)]
    with contextlib.suppress(ApplianceError):  # the tests that need it say so, and fail
        folders.append(str(unpacked.find("shellcheck", "shellcheck").parent))
    return {"PATH": os.pathsep.join(folders)}
