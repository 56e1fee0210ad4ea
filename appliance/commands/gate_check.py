"""Try to get past nginx without and with wrong credentials, and through it with the right ones.

nginx.service runs it after each start and is stopped when it fails.
"""

from __future__ import annotations

import argparse
import sys

from appliance import command, settings, verify
from appliance.apply import target
from appliance.gate import Gate


def main() -> int:
    return command.run(
        command.parser("infinity-gate-check", __doc__, "sudo infinity-gate-check"), check
    )


def check(_options: argparse.Namespace, gate: Gate) -> None:
    verify.require(target(settings.required(gate.paths), gate.paths))
    print(
        "infinity-gate-check: the gate refuses strangers and accepts this instance's credentials."
    )


if __name__ == "__main__":
    sys.exit(main())
