"""Take over the API keys and the login of this instance's fleet from AWS Secrets Manager.

A timer runs it every few minutes; run it by hand to have a changed secret at once. Nothing
happens where /etc/infinity/fleet.env names no secret.
"""

from __future__ import annotations

import argparse
import sys

from appliance import command, fleet, secrets_manager
from appliance.apply import apply, locked
from appliance.errors import ApplianceError
from appliance.files import write_atomic
from appliance.fleet import Secrets, Shared
from appliance.gate import Gate


def main() -> int:
    parser = command.parser("infinity-fleet-sync", __doc__, "sudo infinity-fleet-sync")
    parser.add_argument("--fetch", action="store_true", help="only fetch, as before first boot")
    return command.run(parser, sync)


def sync(options: argparse.Namespace, gate: Gate) -> None:
    named = fleet.configured(gate.paths)
    if not named.shared:
        print("This instance belongs to no fleet.")
        return
    # One at a time: a slow reader must not put an older value over a newer one.
    with locked(gate.paths.fleet / "sync.lock", "Another one is reading the fleet's secret."):
        follow(named, options, gate)


def follow(named: Secrets, options: argparse.Namespace, gate: Gate) -> None:
    shared = fleet.parsed(secrets_manager.read(named.shared, named.endpoint))
    if options.fetch:
        fetch(shared, gate)
    else:
        take_over(shared, gate)


def fetch(shared: Shared, gate: Gate) -> None:
    """Before first boot nginx does not run, and first boot tests what it makes of this."""
    for file in fleet.files(shared, gate):
        write_atomic(file.path, file.data or "", file.mode, file.owner)


def take_over(shared: Shared, gate: Gate) -> None:
    if not (gate.paths.api_key_map.is_symlink() and gate.paths.htpasswd.is_symlink()):
        raise ApplianceError("This instance has not joined its fleet yet.", "Reboot it.")
    with command.changing(gate) as known:
        files = fleet.files(shared, gate)
        if files:
            apply(files, known, gate)
            print("The fleet's keys and login have changed and are in use.")


if __name__ == "__main__":
    sys.exit(main())
