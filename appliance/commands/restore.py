"""Take back a change that was cut off in the middle, as by a kill or a power cut.

systemd runs it by itself whenever such a change is found; it does nothing otherwise.
"""

from __future__ import annotations

import argparse
import sys

from appliance import command
from appliance.activate import undo
from appliance.apply import locked
from appliance.gate import Gate

PATIENCE = 20 * 60.0  # seconds: a change of the model holds the lock while it loads


def main() -> int:
    return command.run(
        command.parser("infinity-restore", __doc__, "sudo infinity-restore"), restore
    )


def restore(_options: argparse.Namespace, gate: Gate) -> None:
    with locked(gate.paths.lock, patience=PATIENCE):
        if undo(gate):
            print("A change that was cut off was taken back; everything is as it was before it.")


if __name__ == "__main__":
    sys.exit(main())
