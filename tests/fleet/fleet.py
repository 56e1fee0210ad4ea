"""A fleet under load: members behind the balancer, and what an Auto Scaling group does to them."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from machine.instance import Machine
from tests.fleet import load, member, secret
from tests.fleet.balancer import SHORTENED, Balancer, balancer
from tests.fleet.load import Load
from tests.fleet.member import HOST, Group
from tests.fleet.secret import Secret

KEY, NEW_KEY = "inf-" + "0a1b2c3d" * 6, "inf-" + "4e5f6a7b" * 6
PATIENCE = 600.0  # seconds for anything that is waited for, on a busy computer


@dataclass(frozen=True)
class Fleet:
    """Everything that takes part."""

    balancer: Balancer
    secret: Secret
    group: Group
    load: Load

    @property
    def members(self) -> list[Machine]:
        return list(self.group.members)

    def enter(self) -> Machine:
        """Launch one, and return when the balancer has found it healthy."""
        machine = self.group.launch()
        self.balancer.register(machine.address)
        wait(lambda: self.balancer.healthy(machine.address), f"{machine.name}'s readiness")
        return machine

    def leave(self, machine: Machine) -> bool:
        """Drain one and terminate it; whether it has finished all that it had."""
        finished = self.balancer.deregister(machine.address)
        self.group.terminate(machine)
        return finished

    def accepts(self, key: str) -> list[str]:
        """The names of the members that let the key in."""
        return [machine.name for machine in self.members if status(machine, key) == http.client.OK]

    def served(self, began: float) -> set[str]:
        """The addresses that have answered what began then or later."""
        names = {attempt.id for attempt in self.load.since(began)[1] if not attempt.failure}
        return {seen.target for name, seen in self.balancer.log().items() if name in names}


@contextmanager
def fleet(folder: Path, prefix: str, shortened: float = SHORTENED) -> Iterator[Fleet]:
    """One member, healthy, and no load yet; all is gone in the end.

    Args:
        folder: for the balancer's files.
        prefix: of the machines' names.
        shortened: by what the balancer's times are divided.
    """
    with ExitStack() as stack:
        shared = stack.enter_context(secret.shared({"api_keys": {"search": KEY}}))
        before = stack.enter_context(balancer(folder, HOST, shortened))
        group = stack.enter_context(member.group(shared, prefix))
        made = Fleet(before, shared, group, Load(before, HOST, "", KEY))
        made.load.model = made.enter().record.model
        yield made


def status(machine: Machine, key: str) -> int:
    """What a member itself answers to a key; its certificate is nobody's business here."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(machine.address, timeout=60, context=context)
    try:
        connection.request(
            "GET", "/v1/models", headers={"Host": HOST, "Authorization": f"Bearer {key}"}
        )
        return connection.getresponse().status
    finally:
        connection.close()


def wait(true: Callable[[], bool], what: str, patience: float = PATIENCE) -> float:
    """Seconds until something was so.

    Raises:
        ApplianceError: it never was.
    """
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > patience:
            raise ApplianceError(f"{what} did not come within {patience:g} s.")
        time.sleep(0.2)
    return time.monotonic() - began


def load_for(fleet: Fleet, calls: int) -> None:
    """Return when so many more calls have been made."""
    before = len(fleet.load.calls)
    wait(lambda: len(fleet.load.calls) >= before + calls, f"{calls} more calls")


steady = load.steady
