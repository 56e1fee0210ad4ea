"""Is the machine ready, and if not, what failed?"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from appliance.errors import ApplianceError

UNITS = (
    "cloud-init.service",
    "cloud-init-network.service",
    "cloud-config.service",
    "cloud-final.service",
    "infinity-firstboot.service",
    "infinity-model.service",
    "infinity.service",
    "nginx.service",
)
LAST_LINES = 12
PAUSE = 0.1  # seconds between two looks

Inside = Callable[[list[str]], str]  # runs a command in the machine, returns its output


@dataclass(frozen=True)
class Unit:
    """What systemd in the machine says of one unit."""

    name: str
    state: str
    result: str
    restarts: int

    @property
    def failed(self) -> bool:
        """Ended badly for good, or again and again."""
        return self.state == "failed" or self.restarts > 2  # noqa: PLR2004 - thrice is no accident


def wait(inside: Inside, address: str, timeout: float) -> None:
    """Return once cloud-init is done and both nginx and the model answer.

    Args:
        inside: runs a command in the machine; raises ApplianceError while there is none.
        address: the machine's.
        timeout: seconds.

    Raises:
        ApplianceError: a unit failed, or the time is over; the message has what the unit
            said last.
    """
    deadline = time.monotonic() + timeout
    units: list[Unit] = []
    while time.monotonic() < deadline:
        try:
            units = look(inside)
        except ApplianceError:  # systemd is not up yet, or going down for a reboot
            units = []
        if failed := [unit for unit in units if unit.failed]:
            raise ApplianceError(_story(inside, failed, "failed"), _HINT)
        if units and cloud_init_done(inside, units) and answers(address):
            return
        time.sleep(PAUSE)
    late = [unit for unit in units if unit.state not in {"active", "inactive"}]
    raise ApplianceError(_story(inside, late, f"is not ready after {timeout:g} s"), _HINT)


_HINT = "`python3 -m machine logs` shows the whole journal, `exec` lets you look around."


def look(inside: Inside) -> list[Unit]:
    """The state of all units that the image has, in the order of the boot."""
    properties = "Id,LoadState,ActiveState,Result,NRestarts"
    said = inside(["systemctl", "show", f"--property={properties}", *UNITS])
    return parse(said)


def parse(said: str) -> list[Unit]:
    """Read ``systemctl show``: one block a unit, ``Name=value`` lines."""
    units = {}
    for block in said.split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if values.get("LoadState") == "loaded":
            units[values["Id"]] = Unit(
                values["Id"],
                values["ActiveState"],
                values.get("Result", ""),
                int(values.get("NRestarts") or 0),
            )
    return list(units.values())


def cloud_init_done(inside: Inside, units: list[Unit]) -> bool:
    """Its last stage ran; or the boot is over and it was never asked to."""
    final = {unit.name: unit.state for unit in units}.get("cloud-final.service")
    if final == "active":
        return True
    system = inside(["systemctl", "is-system-running"]).strip()
    return final in {None, "inactive"} and system in {"running", "degraded"}


def answers(address: str, port: int = 443, path: str = "/readyz") -> bool:
    """Whether an embedding came back: /readyz is 200, whatever name one asks for.

    The certificate is not checked: this asks for readiness and sends no secret.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(address, port, timeout=3, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _story(inside: Inside, units: list[Unit], what: str) -> str:
    """One paragraph a unit: what it is, how it ended, its last lines in the journal."""
    if not units:
        return f"The machine {what}."
    parts = []
    for unit in units:
        try:
            lines = inside(
                [
                    "journalctl",
                    "--no-pager",
                    "--output=cat",
                    f"--lines={LAST_LINES}",
                    "-u",
                    unit.name,
                ]
            )
        except ApplianceError as error:
            lines = str(error)
        indented = "".join(f"\n    {line}" for line in lines.splitlines())
        parts.append(f"{unit.name} {what} ({unit.state}, {unit.result}). Its last lines:{indented}")
    return "\n".join(parts)
