"""`python -m firstboot`: gives this instance its identity, and follows its name.

Runs at every boot, before nginx. Everything is made once for an instance; a boot with
nothing to do only looks.
"""

from __future__ import annotations

import datetime as dt
import socket
import sys
from dataclasses import replace

from appliance import certificates, derived, facts, settings
from appliance.activate import undo
from appliance.apply import apply, locked
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.imds import Imds
from appliance.paths import Paths
from appliance.settings import Ports
from firstboot import options, steps
from firstboot import stamp as stamps


def boot(gate: Gate, imds: Imds, ports: Ports) -> str:
    """The whole sequence.

    Returns:
        The URL that is served.

    Raises:
        ApplianceError: what failed; the next run goes on from there.
    """
    paths = gate.paths
    steps.make_folders(paths)
    with locked(paths.lock):
        undo(gate)
        known = facts.gather(imds, paths)
        stamp = steps.recognise(known, paths)
        previous = settings.load(paths)
        wanted = settings.choose(known, paths, ports, ipv6=has_ipv6(), previous=previous)
        steps.join_fleet(wanted, gate)
        if steps.nothing_to_do(stamp, wanted, previous, paths):
            steps.renew_certificate(wanted, gate, now())
            gate.test()
            return wanted.url
        stamps.save(replace(stamp, done=False), paths)
        who = steps.ensure_credentials(wanted, gate)
        apply(
            [
                *steps.secret_files(who, gate),
                *derived.files(wanted, gate),
                *certificates.fitting(wanted, gate, now()),
            ],
            wanted,
            gate,
        )
        stamps.save(replace(stamp, done=True), paths)
    return wanted.url


def main() -> int:
    told = options.read(sys.argv[1:], __doc__)
    gate = Gate(Paths(told.root), told.nginx)
    try:
        url = boot(gate, Imds(told.imds_url, told.patience), told.ports)
    except ApplianceError as error:
        print(f"infinity-firstboot: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(
            f"infinity-firstboot: {error.filename or 'the system'}: {error.strerror}. "
            "Hint: mend that, then run `systemctl start infinity-firstboot`.",
            file=sys.stderr,
        )
        return 1
    print(f"infinity-firstboot: Infinity is served at {url}")
    return 0


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def has_ipv6() -> bool:
    """Whether nginx may listen on [::]."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
