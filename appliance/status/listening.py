"""Who listens on this machine, and whether that is what the appliance opens."""

from __future__ import annotations

import re

from appliance.run import run
from appliance.settings import Ports
from appliance.status.report import Listener

_PROCESS = re.compile(r'"((?:\\.|[^"\\])*)"')
# A DHCP client's own end of its conversation with the network.
_DHCP = {68, 546}
_DHCP_CLIENTS = {"systemd-network", "dhclient", "dhcpcd", "NetworkManager"}
# systemd holds sshd's socket where Ubuntu starts it by a connection.
_SSH = {"sshd", "systemd"}


def look(ports: Ports) -> tuple[Listener, ...]:
    """Every listening TCP socket and bound UDP socket.

    Raises:
        ApplianceError: ss is missing or failed.
    """
    return parse(run(["ss", "-Htulnp"], timeout=10).stdout, ports)


def parse(said: str, ports: Ports) -> tuple[Listener, ...]:
    """Read ``ss -Htulnp``; the two address families of one service count once."""
    found: dict[tuple[str, int, str, bool], Listener] = {}
    for line in said.splitlines():
        kind, _, _, _, local, *rest = line.split(None, 6)
        address, _, port = local.rpartition(":")
        address = address.strip("[]").partition("%")[0]
        named = _PROCESS.search(rest[-1]) if rest else None
        made = listener(kind, address, int(port), named[1] if named else "", ports)
        found.setdefault((kind, made.port, made.process, made.beyond_loopback), made)
    return tuple(sorted(found.values(), key=lambda each: (each.port, each.protocol)))


def listener(kind: str, address: str, port: int, process: str, ports: Ports) -> Listener:
    beyond = not (address.startswith("127.") or address in {"::1", "::ffff:127.0.0.1"})
    expected = not beyond or (
        (kind == "tcp" and port in {ports.https, ports.http} and process == "nginx")
        or (kind == "tcp" and process in _SSH and port != ports.upstream)
        or (kind == "udp" and port in _DHCP and process in _DHCP_CLIENTS)
    )
    if not beyond and port == ports.upstream:
        expected = process == "infinity_emb"
    return Listener(kind, address, port, process, beyond, expected)
