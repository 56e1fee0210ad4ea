"""The server with a model that fails on command: run as a program by the tests.

A file named by FAULT says what a forward pass does: ``raise``, ``hang``, ``nan``, ``slow``,
``die`` (the thread ends), or nothing. A text with the word ``poison`` raises by itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from appliance.serving import server

FAULT = Path(os.environ["FAULT"])
POISON = 9947  # the id of "poison" in BERT's vocabulary


def main() -> int:
    server.prepare_environment()
    from appliance.serving import models  # noqa: PLC0415 - after the environment

    forward = models.Served._forward

    def faulty(self: models.Served, pieces: Sequence[Any]) -> Sequence[Any]:
        with self._passes.one(1):
            fault(pieces)
        results = forward(self, pieces)
        return list(np.full_like(results, np.nan)) if said() == "nan" else results

    models.Served._forward = faulty  # type: ignore[method-assign]
    return server.main()


def said() -> str:
    return FAULT.read_text().strip() if FAULT.exists() else ""


def fault(pieces: Sequence[Any]) -> None:
    if said() == "raise" or any(POISON in piece[0] for piece in pieces):
        raise RuntimeError("the model was told to fail")
    if said() == "die":
        sys.exit("the thread was told to end")
    while said() == "hang":
        time.sleep(0.1)
    if said() == "slow":
        time.sleep(0.5)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
