"""systemd-nspawn: the command that boots the machine, and the way into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from machine import cgroups
from machine.names import Place

REBOOT_STATUS = 133  # what nspawn exits with, under --keep-unit, when the machine reboots

# systemd in the machine attaches BPF programs for IPAddressDeny=; without these it says
# nothing and lets everything through.
CAPABILITIES = "CAP_BPF,CAP_PERFMON,CAP_NET_ADMIN"
SYSTEM_CALLS = "bpf perf_event_open"


def boot_argv(place: Place) -> list[str]:
    """The whole command; to be started in the machine's control group."""
    prefix = cgroups.scope_argv(place) if cgroups.managed_by_systemd() else []
    return [
        *prefix,
        "systemd-nspawn",
        "--quiet",
        f"--directory={place.merged}",
        f"--machine={place.full}",
        "--boot",
        "--register=no",
        "--keep-unit",
        f"--network-namespace-path=/run/netns/{place.inside}",
        f"--capability={CAPABILITIES}",
        f"--system-call-filter={SYSTEM_CALLS}",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=read-only",
    ]


def leader(nspawn: int) -> int | None:
    """The machine's PID 1 as numbered on the host; None while there is none."""
    try:
        children = Path(f"/proc/{nspawn}/task/{nspawn}/children").read_text().split()
    except OSError:
        return None
    for child in children:
        if _innermost(int(child)) == 1:
            return int(child)
    return None


def _innermost(pid: int) -> int | None:
    """A process's number in its own PID namespace."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            numbers = line.split()[1:]
            return int(numbers[-1]) if len(numbers) > 1 else None
    return None


def exec_argv(
    leader_pid: int, command: Sequence[str], *, user: str, unit: str, terminal: str | None
) -> list[str]:
    """Run ``command`` as a transient unit inside, its streams connected to ours.

    A unit, not a bare process: the command gets the environment and the control group of the
    machine, and nothing of the host's.

    Args:
        leader_pid: see ``leader``.
        command: argv, run without a shell.
        user: who runs it.
        unit: the name of the transient unit.
        terminal: value of TERM when all streams are a terminal, else None: pipes.
    """
    return [
        "nsenter", f"--target={leader_pid}", "--mount", "--uts", "--ipc", "--net", "--pid", "--",
        "systemd-run", "--quiet", "--wait", "--collect", "--service-type=exec",
        f"--unit={unit}",
        f"--uid={user}",
        "--property=WorkingDirectory=~",
        "--setenv=LANG=C.UTF-8",
        *(["--pty", f"--setenv=TERM={terminal}"] if terminal else ["--pipe"]),
        "--", *(word.replace("$", "$$") for word in command),  # systemd would expand variables
    ]  # fmt: skip
