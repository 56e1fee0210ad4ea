"""Have the credentials file name the model that is served, after MODEL= was edited by hand.

systemd runs it by itself whenever the model server has got ready; it does nothing otherwise.
"""

from __future__ import annotations

import argparse
import sys

from appliance import command, derived, settings
from appliance.apply import apply
from appliance.gate import Gate


def main() -> int:
    example = "sudo infinity-follow-model"
    return command.run(command.parser("infinity-follow-model", __doc__, example), follow)


def follow(_options: argparse.Namespace, gate: Gate) -> None:
    if settings.current(gate.paths) == settings.required(gate.paths):
        return
    with command.changing(gate) as known:
        if known != settings.required(gate.paths):  # not done meanwhile, by infinity-set-model
            apply(derived.described(known, gate), known, gate)
            print(f"The credentials file names the model {known.model}.")


if __name__ == "__main__":
    sys.exit(main())
