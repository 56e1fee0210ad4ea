"""``make run``: from nothing to a curl command that works when pasted."""

from __future__ import annotations

import signal

from machine import say
from machine.instance import Machine
from machine.names import place


def run(name: str) -> int:
    Machine(place(name)).down()
    machine = Machine.up(name)
    print(say.ready(machine), flush=True)
    signal.pause()
    return 0
