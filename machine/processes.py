"""The appliance as plain processes below build/local: a first look where no machine can boot.

The same first boot, the same nginx configuration and the same server as on an instance; what
an instance has around them is absent, and is named.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.paths import Paths
from appliance.run import run as run_program
from machine import cache, local_root, ready, say, unpacked
from machine.group import Group, group
from machine.model import model
from machine.names import CHECKOUT
from machine.venvs import host_venv

LOOPBACK = "127.0.0.1"
HTTPS, HTTP, UPSTREAM = 8443, 8080, 7997
READY_TIMEOUT = 180.0  # seconds
ABSENT = """\
What an instance has and this has not: users and sandboxes of their own for the server and nginx
(all runs as you, and who can read your files can read the keys), the block on the server's way
out to the network and to the metadata service, a limit on its memory, the restart of what fails.
Ports 8443 and 8080 are open on every address of this computer."""


def run() -> None:
    """Run until interrupted.

    Raises:
        ApplianceError: the checkout cannot be written, a port is taken, or a part ended.
    """
    paths = Paths(CHECKOUT / "build/local")
    started = time.monotonic()
    local_root.check_writable(paths.root)
    check_ports()
    chosen, venv, nginx = model(), host_venv("serve"), unpacked.find("nginx", "nginx")
    local_root.lay_out(paths, chosen)
    with group(paths.root / "var/log") as parts:
        cache.say("Starting the processes ...")
        start(parts, paths, venv / "bin/python", nginx)
        _until(parts, lambda: ready.answers(LOOPBACK, HTTPS), "a first embedding")
        cache.say(f"\nReady, {time.monotonic() - started:.0f} s after the start:\n")
        cache.say(f"{_usage(paths, chosen.id)}\n\n{ABSENT}\n\nCtrl-C stops it.")
        while True:
            parts.check()
            time.sleep(0.5)


def check_ports() -> None:
    """Raise ApplianceError when another program listens where we would."""
    for port in (HTTPS, HTTP, UPSTREAM):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                raise ApplianceError(
                    f"Another program listens on port {port}.",
                    f"`ss -tlnp sport = :{port}` shows which; it may be another `make run`.",
                ) from None


def start(parts: Group, paths: Paths, python: Path, nginx: Path) -> None:
    """Emulator, first boot, server, nginx: as the units order them."""
    parts.start("server", [python, "-m", "appliance.serving.server"],
                local_root.server_environment(paths, UPSTREAM))  # fmt: skip
    emulator = _emulator(parts, paths)
    run_program(
        [python, "-m", "firstboot", "--root", paths.root, "--imds-url", emulator,
         "--nginx", nginx, "--https-port", str(HTTPS), "--http-port", str(HTTP),
         "--upstream-port", str(UPSTREAM)],
        cwd=CHECKOUT,
    )  # fmt: skip
    parts.start("nginx", Gate(paths, str(nginx)).command(), os.environ)


def _emulator(parts: Group, paths: Paths) -> str:
    """Start the metadata emulator on a port that is free; returns its URL."""
    file = local_root.metadata(paths)
    argv: list[str | Path] = [sys.executable, "-m", "machine.imds", "--file", file, "--port", "0"]
    parts.start("emulator", argv, os.environ)
    log = parts.log("emulator")
    _until(parts, lambda: log.read_text().startswith("listening"), "the metadata emulator")
    return f"http://{log.read_text().split()[1]}"


def _until(parts: Group, done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + READY_TIMEOUT
    while not done():
        parts.check()
        if time.monotonic() > deadline:
            raise ApplianceError(f"{what.capitalize()} did not come.", "See build/local/var/log.")
        time.sleep(0.1)


def _usage(paths: Paths, model_id: str) -> str:
    credentials = os.path.relpath(paths.credentials, CHECKOUT)
    access = say.Access(
        host=local_root.HOST,
        address=LOOPBACK,
        port=HTTPS,
        read="",
        credentials=credentials,
        certificate=paths.certificate,
        model=model_id,
    )
    return "\n".join([*say.table(access), "", access.curl()])
