"""What the command line says of a machine that is ready: lines that work when pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

from machine.instance import Machine
from machine.names import CHECKOUT


def ready(machine: Machine) -> str:
    """Address, URL, and how to get in."""
    named = "" if machine.name == "main" else f" --name {machine.name}"
    key = shlex.quote(str(machine.ssh_key))
    lines = {
        "address": machine.address,
        "URL": machine.url,
        "credentials": f"python3 -m machine exec{named} -- cat /root/infinity-credentials.txt",
        "ssh": f"ssh -i {key} {SSH_OPTIONS} ubuntu@{machine.address}",
        "model": machine.record.model,
    }
    return "\n".join(f"{name:12} {value}" for name, value in lines.items())


# The host key is new with each machine, and addresses are used again.
SSH_OPTIONS = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


def save_certificate(machine: Machine) -> Path:
    """A copy of the machine's certificate on the host, for --cacert."""
    path = CHECKOUT / "build" / f"{machine.name}.crt"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(machine.exec(["cat", "/etc/ssl/infinity/infinity.crt"]).raw_stdout)
    return path
