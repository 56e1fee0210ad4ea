"""systemd's units as the commands start, stop and copy them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.files import remove, write_atomic
from appliance.run import run

SERVER = "infinity.service"
TRANSIENT = Path("/run/systemd/system")
LOOK = 0.3  # seconds between two looks at a unit that is starting


def restart(unit: str, *, wait: bool = True) -> None:
    """Start a unit anew.

    Args:
        unit: with its suffix.
        wait: until it is ready; otherwise only ask for it, as a unit that comes before it may.

    Raises:
        ApplianceError: it did not get ready; the message is what it said last.
    """
    words = ["restart"] if wait else ["--no-block", "restart"]
    done = run(["systemctl", *words, unit], check=False, timeout=None)
    if wait and done.returncode != 0:
        raise failure(unit)


def await_ready(unit: str) -> None:
    """Wait until what systemd is doing with a unit is over.

    Raises:
        ApplianceError: it is not active then.
    """
    while True:
        state = show(unit, "ActiveState", "Job")
        if state["Job"] in {"", "0"} and state["ActiveState"] not in {"activating", "deactivating"}:
            break
        time.sleep(LOOK)
    if state["ActiveState"] != "active":
        raise failure(unit)


def start(unit: str, watch: Callable[[str], None]) -> None:
    """Start a unit and wait until it is ready, or done if it is a oneshot.

    Args:
        unit: with its suffix.
        watch: told its status line, again and again.

    Raises:
        ApplianceError: as ``restart``.
    """
    run(["systemctl", "--no-block", "start", unit])
    while True:
        state = show(unit, "ActiveState", "StatusText", "Job")
        watch(state["StatusText"])
        if state["ActiveState"] == "failed":
            raise failure(unit)
        if state["Job"] in {"", "0"}:
            return
        time.sleep(LOOK)


def stop(unit: str) -> None:
    """Stop a unit and forget how it ended; nothing where there is none."""
    run(["systemctl", "stop", unit], check=False, timeout=None)
    run(["systemctl", "reset-failed", unit], check=False)


def show(unit: str, *names: str) -> dict[str, str]:
    """Properties of a unit, by name."""
    shown = run(["systemctl", "show", f"--property={','.join(names)}", unit]).stdout
    found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    return {name: found.get(name, "") for name in names}


def failure(unit: str) -> ApplianceError:
    """Why a unit failed, in the words of its last process if it found any."""
    state = show(unit, "InvocationID", "Result")
    run(["journalctl", "--sync"], check=False)
    invocation = f"_SYSTEMD_INVOCATION_ID={state['InvocationID']}"
    said = run(
        ["journalctl", "--quiet", "--output=cat", "--lines=40", invocation], check=False
    ).stdout.splitlines()
    told = [line for line in said if " Hint: " in line] or said[-1:]
    if state["Result"] in {"oom-kill", "timeout", "watchdog"} or not told:
        told = [f"{unit} ended with the result {state['Result']}."]
    message, _, hint = told[-1].partition(" Hint: ")
    return ApplianceError(message, hint or f"See `journalctl -u {unit}`.")


def copy(
    original: str, name: str, overrides: Sequence[str], environment: Mapping[str, str]
) -> Path:
    """A transient unit with the whole sandbox of another, an operator's drop-ins included.

    Args:
        original: the unit whose ``[Service]`` is copied.
        name: what the new one is called, without a suffix.
        overrides: lines that follow.
        environment: what its process sees in place of infinity.env.

    Returns:
        The new unit's file.
    """
    env = TRANSIENT / f"{name}.env"
    lines = "".join(f"{key}={value}\n" for key, value in environment.items())
    write_atomic(env, lines, 0o600)  # may hold the hub's token; systemd reads it as root
    body = service_section(run(["systemctl", "cat", original]).stdout)
    text = "\n".join(
        [
            *("[Unit]", f"Description={name}, as {original} is", "StartLimitIntervalSec=0", ""),
            *body,
            *("[Service]", "EnvironmentFile=", f"EnvironmentFile={env}", *overrides, ""),
        ]
    )
    path = TRANSIENT / f"{name}.service"
    write_atomic(path, text, 0o644)
    run(["systemctl", "daemon-reload"])
    return path


def discard(name: str) -> None:
    """Stop a copy and remove it; nothing where there is none."""
    path = TRANSIENT / f"{name}.service"
    if path.exists():
        stop(path.name)
        remove(path)
        run(["systemctl", "daemon-reload"])
    remove(TRANSIENT / f"{name}.env")


def service_section(text: str) -> list[str]:
    """The lines of every ``[Service]`` section of a unit and its drop-ins, in order."""
    kept, inside, continued = [], False, False
    for line in text.splitlines():
        if line.startswith("[") and not continued:
            inside = line.strip() == "[Service]"
        if inside:
            kept.append(line)
        continued = line.endswith("\\")
    return kept
