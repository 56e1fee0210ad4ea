"""Power cuts and other accidents, as the tests cause them: how long the way back takes.

ROUNDS of the environment is the number of power cuts, 50 unless set.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Iterator

from appliance.run import run
from audit.row import Row, judged
from machine.instance import Machine
from machine.names import CHECKOUT

BAR = 60.0  # seconds
FIGURES = CHECKOUT / "build/faults.json"
ROUNDS = "50"


def rows(_: Machine) -> Iterator[Row]:
    """One run of the fault tests, on machines of their own."""
    FIGURES.unlink(missing_ok=True)
    files = sorted(str(path) for path in (CHECKOUT / "tests/boot").glob("test_faults_*.py"))
    environment = {**os.environ, "ROUNDS": os.environ.get("ROUNDS") or ROUNDS}
    argv = [sys.executable, "-m", "pytest", "-q", *files]
    done = run(argv, check=False, timeout=None, cwd=CHECKOUT, env=environment)
    yield figures(passed=done.returncode == 0)


def figures(*, passed: bool) -> Row:
    """What the last run of the fault tests has written down, as a row."""
    kept = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    took = [seconds for many in kept.values() for seconds in many]
    cuts = sum(len(many) for fault, many in kept.items() if "power cut" in fault)
    median, slowest = (statistics.median(took), max(took)) if took else (0.0, 0.0)
    told = f"{cuts} cuts, {len(took)} faults, back in {median:.0f} s, {slowest:.0f} s at most"
    return judged(
        "faults: nothing opens, nothing is lost, service comes back",
        "power cuts and kills",
        f"{ROUNDS} cuts, back within {BAR:.0f} s",
        told if passed else f"a test failed; {told}",
        passed=passed and cuts >= int(ROUNDS) and slowest <= BAR,
    )
