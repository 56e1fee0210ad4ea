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
from audit.row import Row, judged, untested
from machine.instance import Machine
from machine.names import CHECKOUT

BAR = 60.0  # seconds
FIGURES = CHECKOUT / "build/faults.json"
ROUNDS = "50"
CONTROL = "faults: nothing opens, credentials stay consistent"


def rows(_: Machine) -> Iterator[Row]:
    """One run of the fault tests, on machines of their own."""
    FIGURES.unlink(missing_ok=True)
    files = sorted(str(path) for path in (CHECKOUT / "tests/boot").glob("test_faults_*.py"))
    environment = {**os.environ, "ROUNDS": os.environ.get("ROUNDS") or ROUNDS}
    argv = [sys.executable, "-m", "pytest", "-q", *files]
    done = run(argv, check=False, timeout=None, cwd=CHECKOUT, env=environment)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    kept: dict[str, list[float]] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    yield together(kept, failed, passed=done.returncode == 0)
    yield from each(kept)


def together(kept: dict[str, list[float]], failed: list[str], *, passed: bool) -> Row:
    """Whether every test passed, over how many faults."""
    cuts = sum(len(many) for fault, many in kept.items() if "power cut" in fault)
    others = sum(map(len, kept.values())) - cuts
    told = f"{cuts} cuts, {others} other faults"
    bar = f"every test, {ROUNDS} power cuts"
    if not passed:
        return judged(CONTROL, "pytest", bar, " ".join([told, *failed])[:200], passed=False)
    if cuts < int(ROUNDS):
        return untested(CONTROL, "pytest", bar, f"passed, but ROUNDS was less: {told}")
    return judged(CONTROL, "pytest", bar, told, passed=True)


def each(kept: dict[str, list[float]]) -> Iterator[Row]:
    """Every fault and the seconds until the service was back by itself."""
    for fault, took in sorted(kept.items()):
        yield judged(
            f"back after {fault}",
            "stopwatch",
            f"<= {BAR:.0f} s",
            f"{max(took):.1f} s at most, {statistics.median(took):.1f} s mostly, {len(took)} times",
            passed=max(took) <= BAR,
        )
