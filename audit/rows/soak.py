"""Minutes of mixed load, as `make soak` measures it: MINUTES of the environment, 30 unless set."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from appliance.run import run
from audit.row import Row, judged
from machine.instance import Machine
from machine.names import CHECKOUT
from machine.steps import current_commit

FIGURES = CHECKOUT / "build/soak.json"
MINUTES = "30"


def rows(_: Machine) -> Iterator[Row]:
    """The figures of this commit's last run if it was as long; else of one run now."""
    minutes = os.environ.get("MINUTES") or MINUTES
    if not fresh(kept(), float(minutes)):
        argv = [sys.executable, "-m", "tests.soak", "--minutes", minutes]
        run(argv, timeout=None, cwd=CHECKOUT)
    yield from figures(kept())


def kept() -> dict[str, Any]:
    """What `make soak` has written last; empty when it never ran."""
    found: dict[str, Any] = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    return found


def fresh(told: Mapping[str, Any], minutes: float) -> bool:
    """Whether these are figures of what is checked out, and of so many minutes."""
    here = current_commit()
    known = here != "unknown" and not here.endswith("+")
    return bool(told) and known and told["commit"] == here and told["minutes"] >= minutes


def figures(told: Mapping[str, Any]) -> Iterator[Row]:
    """Each of its promises as a row."""
    for row in told["rows"]:
        yield judged(
            f"load: {row['name']}",
            f"make soak, {told['minutes']:g} min",
            row["bar"],
            f"{row['measured']:.3g}",
            passed=row["holds"],
        )
