"""The machine's network: its own namespace, a router beside it, a link to the host.

    host  inf7 10.213.7.130 --- 10.213.7.129 outer ROUTER inner 10.213.7.1 --- 10.213.7.2 host0
                       169.254.169.254 on lo: the metadata emulator              MACHINE

The metadata address exists in the router's namespace only. On the host it would hijack the
host's own metadata service when the host is itself an EC2 instance. The router has no default
route: to the machine everything beyond the host is unreachable, at once and not after a timeout.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine.names import Place

METADATA_ADDRESS = "169.254.169.254"
MAX_NETWORKS = 254
MAC_PREFIX = "02:13:0a:d5"
INTERFACES = Path("/sys/class/net")


def machine_address(index: int) -> str:
    return f"10.213.{index}.2"


def mac(index: int) -> str:
    return f"{MAC_PREFIX}:{index:02x}:02"


def create(place: Place) -> int:
    """Make both namespaces and all links; returns the network's index, 1 to 254.

    The host's interface name is the lock: the kernel lets one machine on this host, of
    whichever checkout, have it.
    """
    for namespace in (place.router, place.inside):
        run(["ip", "netns", "add", namespace])
    index = _claim_link(place)
    _ip(place.router, "link", "add", "inner", "type", "veth", "peer", "name", "host0",
        "netns", place.inside)  # fmt: skip
    configure(place, index)
    return index


def configure(place: Place, index: int) -> None:
    """Set every address and route; doing it again changes nothing."""
    net = f"10.213.{index}"
    run(["ip", "addr", "replace", f"{net}.130/25", "dev", f"inf{index}"])
    run(["ip", "link", "set", f"inf{index}", "up"])
    run(["ip", "route", "replace", f"{net}.0/25", "via", f"{net}.129"])
    for device, address in (("outer", f"{net}.129/25"), ("inner", f"{net}.1/25"),
                            ("lo", f"{METADATA_ADDRESS}/32")):  # fmt: skip
        _ip(place.router, "addr", "replace", address, "dev", device)
        _ip(place.router, "link", "set", device, "up")
    run(["ip", "netns", "exec", place.router, "sysctl", "-qw", "net.ipv4.ip_forward=1"])
    _ip(place.inside, "link", "set", "host0", "address", mac(index), "up")
    _ip(place.inside, "link", "set", "lo", "up")
    _ip(place.inside, "addr", "replace", f"{net}.2/25", "dev", "host0")
    _ip(place.inside, "route", "replace", "default", "via", f"{net}.1")


def remove(place: Place) -> None:
    """Remove both namespaces; their links go with them, the host's end too."""
    for namespace in (place.inside, place.router):
        if exists(namespace):
            run(["ip", "netns", "del", namespace])


def pids(namespace: str) -> list[int]:
    """The processes in a namespace, as numbered on the host."""
    if not exists(namespace):
        return []
    done = run(["ip", "netns", "pids", namespace], check=False)
    return [int(word) for word in done.stdout.split()]


def kill(namespace: str) -> None:
    """Kill what still runs in a namespace."""
    for pid in pids(namespace):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def exists(namespace: str) -> bool:
    return (Path("/run/netns") / namespace).exists()


def _claim_link(place: Place) -> int:
    routed = _routed()
    for index in range(1, MAX_NETWORKS + 1):
        if (INTERFACES / f"inf{index}").exists() or f"10.213.{index}." in routed:
            continue
        with contextlib.suppress(ApplianceError):  # another took it in between
            run(["ip", "link", "add", f"inf{index}", "type", "veth",
                 "peer", "name", "outer", "netns", place.router])  # fmt: skip
            return index
    raise ApplianceError(
        "No network from 10.213.1.0/24 to 10.213.254.0/24 is free on this host.",
        "Take machines down with `python3 -m machine down`; `ip link` shows who has them.",
    )


def _routed() -> str:
    """Every destination the host has a route to, one a line."""
    routes = json.loads(run(["ip", "-json", "route", "show", "table", "all"]).stdout or "[]")
    return "\n".join(str(route.get("dst", "")) for route in routes)


def _ip(namespace: str, *words: str) -> None:
    run(["ip", "-n", namespace, *words])
