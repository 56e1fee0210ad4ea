"""What the command line says of a system that is ready: lines that work when pasted."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from machine.instance import Machine
from machine.model import PRODUCT
from machine.names import CHECKOUT, DEFAULT

CREDENTIALS = "/root/infinity-credentials.txt"
# The host key is new with each machine, and addresses are used again.
SSH_OPTIONS = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
# curl's configuration with the key, from the credentials file: never on a command line.
KEY_SCRIPT = r"""s/^INFINITY_API_KEY=\(.*\)/header = "Authorization: Bearer \1"/p"""


@dataclass(frozen=True)
class Access:
    """How to reach a running system.

    Attributes:
        host: the name in its certificate.
        address: IPv4, where that name is to be found.
        port: of HTTPS.
        read: command words that come before a reading command's own.
        credentials: the credentials file, as those commands see it.
        certificate: a copy of the certificate on this computer.
        model: the id that requests name.
    """

    host: str
    address: str
    port: int
    read: str
    credentials: str
    certificate: Path
    model: str

    @property
    def url(self) -> str:
        return f"https://{self.host}/" if self.port == 443 else f"https://{self.host}:{self.port}/"  # noqa: PLR2004

    def curl(self) -> str:
        """A request for one embedding; the key goes in through a pipe."""
        body = json.dumps({"model": self.model, "input": ["hello"]})
        certificate = shlex.quote(os.path.relpath(self.certificate, CHECKOUT))
        return (
            f"cd {shlex.quote(str(CHECKOUT))}\n"
            f"{self.read}sed -n {shlex.quote(KEY_SCRIPT)} {self.credentials} |\n"
            f"  curl -s -K - --cacert {certificate}"
            f" --resolve {self.host}:{self.port}:{self.address} \\\n"
            f"  -H 'Content-Type: application/json' {self.url}embeddings \\\n"
            f"  -d {shlex.quote(body)}"
        )


def of_machine(machine: Machine) -> Access:
    """How to reach a machine; leaves a copy of its certificate on the host."""
    certificate = machine.place.certificate
    certificate.parent.mkdir(exist_ok=True)
    certificate.write_bytes(machine.exec(["cat", "/etc/ssl/infinity/infinity.crt"]).raw_stdout)
    named = "" if machine.name == DEFAULT else f" --name {machine.name}"
    sudo = "sudo " if "SUDO_USER" in os.environ else ""
    return Access(
        host=machine.credential("INFINITY_HOST"),
        address=machine.address,
        port=443,
        read=f"{sudo}python3 -m machine exec{named} -- ",
        credentials=CREDENTIALS,
        certificate=certificate,
        model=machine.credential("INFINITY_MODEL"),
    )


def ready(machine: Machine) -> str:
    """Everything one needs to use a machine."""
    access = of_machine(machine)
    sudo = "sudo " if "SUDO_USER" in os.environ else ""
    key = shlex.quote(str(machine.ssh_key))
    return "\n".join(
        [
            *table(access),
            f"  address      {access.address}",
            f"  ssh          {sudo}ssh -i {key} {SSH_OPTIONS} ubuntu@{access.address}",
            "",
            access.curl(),
        ]
    )


def table(access: Access) -> list[str]:
    """URL, model and credentials command, one a line."""
    return [
        f"  URL          {access.url}",
        f"  model        {access.model}{stand_in(access.model)}",
        f"  credentials  {access.read}cat {access.credentials}",
    ]


def stand_in(model: str) -> str:
    """A remark where not the product's model is served."""
    product = json.loads(PRODUCT.read_text())["id"]
    if model == product:
        return ""
    return f"\n               (instead of {product}: the model hub could not be reached)"
