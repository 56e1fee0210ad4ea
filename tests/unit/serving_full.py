"""The server with full-precision weights whatever this CPU is fastest with: run by the tests.

Which weights serve is measured at start; scores can be held to stock's to five digits only where
that is settled.
"""

from __future__ import annotations

import os
import sys

from appliance.serving import server


def main() -> int:
    server.prepare_environment()
    from appliance.serving import encoder_tuning  # noqa: PLC0415 - after the environment

    def settled(weights: object) -> encoder_tuning.Choice:
        del weights
        return encoder_tuning.DEFAULT

    encoder_tuning.measure = settled
    return server.main()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
