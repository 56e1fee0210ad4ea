"""Looking at a booted machine from outside, as a client does, and from inside, as its owner."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import httpx

from appliance.paths import Paths
from appliance.run import Completed, run
from machine.instance import Machine

PATHS = Paths()
IDENTITY = (
    PATHS.credentials,
    PATHS.certificate,
    PATHS.certificate_key,
    PATHS.api_key_map,
    PATHS.htpasswd,
)
HOST_KEYS = "/etc/ssh/ssh_host_*_key"
REFUSED = 401


class Said(Protocol):
    """What a command left."""

    @property
    def stdout(self) -> str: ...


class Owned(Protocol):
    """A machine of any kind, as its owner reaches it."""

    @property
    def address(self) -> str: ...

    def exec(self, command: Sequence[str] | str) -> Said: ...


@dataclass(frozen=True)
class Credentials:
    """The credentials file."""

    host: str
    url: str
    model: str
    api_key: str
    username: str
    password: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"}


def credentials(machine: Owned) -> Credentials:
    """Read the credentials file; its keys must be these, in this order."""
    lines = machine.exec(["cat", str(PATHS.credentials)]).stdout.splitlines()
    pairs = [line.partition("=") for line in lines]
    names = ("HOST", "URL", "MODEL", "API_KEY", "USERNAME", "PASSWORD")
    assert [name for name, _, _ in pairs] == [f"INFINITY_{name}" for name in names]
    return Credentials(*(value for _, _, value in pairs))


def request(
    machine: Owned,
    path: str,
    *,
    host: str | None = None,
    headers: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
    body: object = None,
    timeout: float = 60,
) -> httpx.Response:
    """One request over TLS to the machine's address, its certificate checked for ``host``.

    Args:
        machine: whom to ask.
        path: with its slash, and a query if any.
        host: the name to ask for; None is the name in its credentials file.
        headers: more of them.
        auth: user and password.
        body: sent as JSON by POST; None is GET.
        timeout: seconds.
    """
    name = host or credentials(machine).host
    pem = machine.exec(["cat", str(PATHS.certificate)]).stdout
    context = ssl.create_default_context(cadata=pem)
    with httpx.Client(verify=context, timeout=timeout, trust_env=False) as client:
        return client.request(
            "GET" if body is None else "POST",
            f"https://{machine.address}{path}",
            headers={"Host": name, **(headers or {})},
            auth=auth,
            json=body,
            extensions={"sni_hostname": name},
        )


def hangs_up(machine: Machine, path: str, host: str) -> bool:
    """Whether a request for ``host`` is closed without an answer (TLS itself works)."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((machine.address, 443), 10) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        try:
            return secure.recv(1) == b""
        except ConnectionResetError:
            return True


def open_port(machine: Machine, port: int) -> bool:
    try:
        socket.create_connection((machine.address, port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def serves(machine: Machine) -> Credentials:
    """Check that nginx accepts exactly what the credentials file says; returns that."""
    said = credentials(machine)
    wrong = {"Authorization": f"Bearer {said.api_key}0"}
    assert request(machine, "/models", headers=wrong).status_code == REFUSED
    assert request(machine, "/models").status_code == REFUSED
    accepted = {
        "key": request(machine, "/models", headers=said.bearer).status_code,
        "login": request(machine, "/models", auth=(said.username, said.password)).status_code,
    }
    assert set(accepted.values()) <= {200, 503}, accepted  # 503: the model is still loading
    return said


def state(machine: Machine, unit: str) -> str:
    return machine.exec(["systemctl", "is-active", unit], check=False).stdout.strip()


def show(machine: Machine, unit: str, name: str) -> str:
    """One property of a unit, as ``systemctl show`` has it."""
    return machine.exec(["systemctl", "show", "--property", name, "--value", unit]).stdout.strip()


def said(machine: Machine, unit: str) -> list[str]:
    """What the unit's processes wrote during its last start, without systemd's own lines."""
    invocation = show(machine, unit, "InvocationID")
    match = f"_SYSTEMD_INVOCATION_ID={invocation}"
    lines = machine.exec(["journalctl", "--no-pager", "--output=json", match]).stdout
    return [str(json.loads(line)["MESSAGE"]) for line in lines.splitlines()]


def eventually(true: Callable[[], bool], what: str, timeout: float = 90) -> None:
    """Wait until something is so; a failed attempt to ask counts as not yet."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if true():
            return
        time.sleep(0.1)
    raise AssertionError(f"{what} did not happen within {timeout:g} s")


def settled(machine: Machine) -> None:
    """Wait until the boot's jobs are over: what runs then runs, what failed has failed."""
    machine.exec(["systemctl", "is-system-running", "--wait"], check=False, timeout=240)


def gate_up(machine: Machine) -> None:
    """Wait until first boot is done and nginx passed its check; the model may still load."""
    eventually(lambda: state(machine, "nginx.service") == "active", "nginx's start")


def secrets(machine: Machine) -> dict[str, str]:
    """Everything that must be this machine's own, by name; private keys as their text."""
    found = {"machine-id": machine.exec(["cat", "/etc/machine-id"]).stdout.strip()}
    for path in machine.exec(f"ls {HOST_KEYS}").stdout.split():
        found[path] = machine.exec(["cat", path]).stdout
    mine = credentials(machine)
    found |= {"api key": mine.api_key, "password": mine.password}
    for file in (PATHS.certificate, PATHS.certificate_key, PATHS.htpasswd):
        found[str(file)] = machine.exec(["cat", str(file)]).stdout
    return found


def ssh(machine: Machine, script: str, stdin: str | None = None) -> Completed:
    """Type a script as ubuntu, logged in with the launch key as a customer is."""
    options = {
        "StrictHostKeyChecking": "no",
        "UserKnownHostsFile": "/dev/null",
        "LogLevel": "ERROR",
        "BatchMode": "yes",
        "IdentitiesOnly": "yes",
        "ConnectTimeout": "10",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    argv = ["ssh", "-i", str(machine.ssh_key), *words, f"ubuntu@{machine.address}", script]
    return run(argv, stdin=stdin, check=False, timeout=120)
