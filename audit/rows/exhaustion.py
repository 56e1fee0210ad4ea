"""Floods and slow clients: what a client with the key and a probe notice of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from audit.attacks.launch import ATTACKS, Attack, attacked
from audit.attacks.witness import Noticed, Witness, percentile
from audit.row import Row, judged, untested
from machine.instance import Machine

RATIO = 2.0
HEALTHZ = 0.1  # seconds
ROUNDS = 3
SECONDS = 3.0  # of each phase
BAR = f"key's p99 <= {RATIO:g}x idle, /healthz' p99 <= {HEALTHZ * 1000:g} ms, all 200"
TOOLS = {True: "slowhttptest", False: "audit.attacks"}


def rows(machine: Machine) -> Iterator[Row]:
    witness = Witness.of(machine)
    witness.watch(SECONDS)  # the first requests pay for what all later ones use
    for attack in ATTACKS:
        yield row(machine, attack, witness)


def row(machine: Machine, attack: Attack, witness: Witness) -> Row:
    """Idle and attacked by turns, so that what else the computer does is in both."""
    idle, during = Noticed(), Noticed()
    total: Counter[str] = Counter()
    for _ in range(ROUNDS):
        idle += witness.watch(SECONDS)
        with attacked(machine, attack, witness.host) as met:
            during += witness.watch(SECONDS)
        total += met
    control, tool = f"under attack: {attack.name}", TOOLS[bool(attack.slow)]
    if (usual := percentile(idle.healthz, 0.99)) > HEALTHZ:
        return untested(control, tool, BAR, f"too busy: /healthz took {usual * 1000:.0f} ms idle")
    ratio = percentile(during.key, 0.99) / percentile(idle.key, 0.99)
    healthz = percentile(during.healthz, 0.99)
    said = ", ".join(f"{count} {what}" for what, count in sorted(total.items()))
    measured = (
        f"{ratio:.1f}x ({percentile(during.key, 0.99) * 1000:.0f} ms of {len(during.key)}), "
        f"healthz {healthz * 1000:.0f} ms (slowest {max(during.healthz) * 1000:.0f}, "
        f"idle {max(idle.healthz) * 1000:.0f}), {len(during.failed)} failed; {said}"
    )
    passed = ratio <= RATIO and healthz <= HEALTHZ and not during.failed and bool(total)
    return judged(control, tool, BAR, measured,
                  passed=passed)  # fmt: skip
