"""Finding the modules of ``rows`` and asking each for its rows."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Iterator, Sequence

from appliance.errors import ApplianceError
from audit import rows
from audit.row import Row, judged
from machine import cache
from machine.instance import Machine

# Half an hour each: what is short is on the table before.
LONG = ("faults", "soak")


def modules() -> list[str]:
    """The names of the modules in ``rows``, sorted, the long ones last."""
    names = (module.name for module in pkgutil.iter_modules(rows.__path__))
    return sorted(names, key=lambda name: (name in LONG, name))


def collect(machine: Machine, wanted: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of every module, or of the wanted ones; says how long each took."""
    for name in wanted or modules():
        started = time.monotonic()
        yield from _rows(name, machine)
        cache.progress(name, started)


def _rows(name: str, machine: Machine) -> Iterator[Row]:
    module = importlib.import_module(f"audit.rows.{name}")
    try:
        yield from module.rows(machine)
    except ApplianceError as error:
        # A tool that does not run has confirmed nothing.
        yield judged(name, name, "runs", error.message, passed=False)
