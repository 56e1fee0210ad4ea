"""Attackers where attackers are: beyond the machine's own network, on a CPU that is not its own.

They run in the namespace of the machine's router. Floods get little of the CPU that others want,
since in the field attackers bring theirs.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine.instance import Machine
from machine.names import CHECKOUT

# For benchmarks (RFC 2544): the router has all of it, so an attacker has 131,072 addresses.
EVERYWHERE = "198.18.0.0/15"
KNOWING = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Attack:
    """A name for people, and either an attacker of ours or the options of slowhttptest.

    ``sources`` are the addresses to call from.
    """

    name: str
    attacker: str = ""
    sources: str = ""
    slow: tuple[str, ...] = ()


SLOW = ("-c", "1000", "-r", "1000", "-i", "2", "-x", "16", "-l", "600")
ATTACKS = (
    Attack("slow headers", slow=("-H", *SLOW)),
    Attack("slow bodies", slow=("-B", *SLOW, "-s", "1048576")),
    Attack("slow reads", slow=("-X", *SLOW, "-k", "3", "-w", "1", "-y", "2", "-z", "1")),
    Attack("5,000 idle connections", "idle"),
    Attack("bad logins, one address", "bad-logins"),
    Attack("bad logins, many addresses", "bad-logins", EVERYWHERE),
    Attack("bad keys, many addresses", "bad-keys", EVERYWHERE),
    Attack("64 KiB Authorization headers", "long-credentials"),
    Attack("bodies at the cap", "full-bodies"),
    Attack("gzip'd bodies", "zipped-bodies"),
    Attack("probes", "probes"),
    Attack("new connections", "handshakes", EVERYWHERE),
    Attack("HTTP/2 rapid reset", "rapid-reset"),
    Attack("HTTP/2 CONTINUATION", "continuation"),
)


@contextlib.contextmanager
def attacked(machine: Machine, attack: Attack, host: str) -> Iterator[Counter[str]]:
    """Attack the machine while the body of the ``with`` runs, from full strength on.

    Args:
        machine: it is reached at its address.
        attack: one of ATTACKS.
        host: the name to ask for.

    Yields:
        what it met, filled in when it has ended: counts by status, or by what happened.
    """
    met: Counter[str] = Counter()
    with _route(machine, attack.sources), tempfile.TemporaryDirectory() as folder:
        with _started(_argv(machine, attack, host, Path(folder, "hosts"))) as process:
            said = _wait(process, "connected: *[1-9]" if attack.slow else "ready$")
            yield met
            rest = _ended(process)
        met.update(_slow_counts(said + rest) if attack.slow else json.loads(rest))


def _argv(machine: Machine, attack: Attack, host: str, names: Path) -> list[str]:
    names.write_text(f"{machine.address} {host}\n")
    argv = ["ip", "netns", "exec", machine.place.router]
    if attack.slow:
        # It finds the host in a file of ours, which only it sees as /etc/hosts.
        argv += ["unshare", "--mount", "sh", "-c", KNOWING, "sh", str(names)]
        argv += ["stdbuf", "--output=L", "slowhttptest", *attack.slow]
        return [*argv, "-u", f"https://{host}/v1/models"]
    ours = [sys.executable, "-m", "audit.attacks", attack.attacker, machine.address, host]
    return [*argv, *ours, attack.sources]


@contextlib.contextmanager
def _started(argv: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, gone in the end."""
    with subprocess.Popen(
        argv,
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait(process: subprocess.Popen[str], strong: str) -> str:
    """What an attacker says until it says that it is at full strength (a regular expression)."""
    said = ""
    for line in process.stdout or ():
        said += COLOUR.sub("", line)
        if re.match(strong, said.splitlines()[-1]):
            return said
    raise ApplianceError(f"The attacker did not start: {said.strip()[-200:]}")


def _ended(process: subprocess.Popen[str]) -> str:
    """Interrupt an attacker; what it says then."""
    process.send_signal(signal.SIGINT)
    return COLOUR.sub("", process.stdout.read() if process.stdout else "")


def _slow_counts(said: str) -> dict[str, int]:
    """The last state that slowhttptest printed, and how often it found the service unavailable."""
    states = re.findall(r"^(connected|closed|error): +(\d+)", said, re.MULTILINE)
    answers = re.findall(r"^service available: +(YES|NO)", said, re.MULTILINE)
    if not states or not answers:
        raise ApplianceError(f"slowhttptest told nothing: {said.strip()[-200:]}")
    return {name: int(count) for name, count in states} | {"unavailable": answers.count("NO")}


@contextlib.contextmanager
def _route(machine: Machine, sources: str) -> Iterator[None]:
    """Let the router call from every address of a network."""
    if not sources:
        yield
        return
    route = ["local", sources, "dev", "lo"]
    run(["ip", "-n", machine.place.router, "route", "replace", *route])
    try:
        yield
    finally:
        run(["ip", "-n", machine.place.router, "route", "del", *route])
