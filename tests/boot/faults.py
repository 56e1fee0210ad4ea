"""What every fault has in common: a burglar who tries the door meanwhile, and the way back.

After a fault nothing is open that was closed, the credentials file tells what nginx accepts, and
the service is back without a person.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import probe

from appliance.errors import ApplianceError
from machine import lifecycle
from machine.instance import Machine
from machine.names import CHECKOUT

# Seconds. The bar is 60, on a computer of its own; tests run beside others on two cores.
NEVER = 300.0
PAUSE = 0.05
RESULT = CHECKOUT / "build/faults.json"
REFUSALS = {401, 429}


@dataclass
class Burglar:
    """Asks for /models without a credential and with a wrong one, and for the server's own port.

    ``got_in`` is what was answered that should not have been.
    """

    machine: Machine
    host: str
    knocks: int = 0
    got_in: list[str] = field(default_factory=list)

    def knock(self) -> None:
        """Try once. Without a machine its address is anybody's, so only what it said counts."""
        before = lifecycle.running(self.machine.place)
        if before is None:
            return
        answered = self._try()
        if lifecycle.running(self.machine.place) == before:
            self.knocks += 1
            self.got_in += answered

    def _try(self) -> list[str]:
        answered = []
        headers = {"Host": self.host}
        if time.monotonic_ns() % 2:
            headers["Authorization"] = "Bearer inf-" + "0" * 48
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPSConnection(
                self.machine.address, timeout=2, context=_blind()
            )
            try:
                connection.request("GET", "/models", headers=headers)
                status = connection.getresponse().status
            finally:
                connection.close()
            if status not in REFUSALS:
                answered.append(f"/models answered {status}")
        with contextlib.suppress(OSError):
            socket.create_connection((self.machine.address, 7997), 0.2).close()
            answered.append("the server's port was open")
        return answered


def _blind() -> ssl.SSLContext:
    """A burglar does not mind whose certificate it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def burglar(machine: Machine, host: str | None = None) -> Iterator[Burglar]:
    """Somebody tries the door all the time; it must stay shut whatever happens in the body."""
    at_work, over = Burglar(machine, host or probe.credentials(machine).host), threading.Event()

    def work() -> None:
        while not over.wait(PAUSE):
            at_work.knock()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield at_work
    finally:
        over.set()
        thread.join()
    assert at_work.got_in == [], at_work.got_in
    assert at_work.knocks > 0, "nobody knocked"


def back(machine: Machine, fault: str, began: float | None = None) -> None:
    """Wait until the model answers through the gate, check who is let in, write the time down.

    Args:
        machine: which had the fault.
        fault: its name.
        began: when it ended, by the monotonic clock; None is now.
    """
    began = time.monotonic() if began is None else began
    probe.eventually(lambda: answers(machine), f"the way back from {fault}", NEVER)
    took = time.monotonic() - began
    probe.serves(machine)
    note(fault, took)


def answers(machine: Machine) -> bool:
    """Whether an embedding comes back with the key in the credentials file."""
    try:
        mine = probe.credentials(machine)
        body = {"model": mine.model, "input": ["still there?"]}
        asked = probe.request(machine, "/embeddings", headers=mine.bearer, body=body)
    except (OSError, ApplianceError, AssertionError, httpx.HTTPError):
        return False
    return asked.status_code == http.client.OK


def up(machine: Machine) -> None:
    """Before a fault: the machine serves."""
    probe.eventually(lambda: answers(machine), "the model's readiness", NEVER)


def note(fault: str, seconds: float) -> None:
    """Print the figure, and keep it for the audit."""
    print(f"back after {fault}: {seconds:.1f} s")
    RESULT.parent.mkdir(exist_ok=True)
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    kept.setdefault(fault, []).append(round(seconds, 1))
    RESULT.write_text(json.dumps(kept, indent=2) + "\n")


def healthy(machine: Machine) -> list[str]:
    """What `infinity-status` finds wrong."""
    said = machine.exec(["infinity-status", "--json"], check=False).stdout
    return [problem["what"] for problem in json.loads(said)["problems"]]


def thorough() -> bool:
    """Whether `make faults` asks, and not `make test`, which has to be quick."""
    return bool(os.environ.get("ROUNDS"))


def rounds(default: int) -> int:
    """How often: ROUNDS of the environment, as `make faults` sets it."""
    return int(os.environ.get("ROUNDS", "") or default)
