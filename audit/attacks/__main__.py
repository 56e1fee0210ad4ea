"""One attacker: ``python -m audit.attacks NAME ADDRESS HOST [SOURCES]``.

Says "ready" once it is at full strength, and when it is interrupted what it met, as a JSON object.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from audit.attacks import http1, http2
from audit.attacks.door import PATIENCE, Door

THREADS = 16
NICE = 10  # of the session; a tenth of the usual weight
BY_NAME: dict[str, Callable[[Door], None]] = {
    "idle": functools.partial(http1.idle, share=http1.KEPT // THREADS + 1),
    "bad-logins": http1.bad_logins,
    "bad-keys": http1.bad_keys,
    "long-credentials": http1.long_credentials,
    "full-bodies": http1.full_bodies,
    "zipped-bodies": http1.zipped_bodies,
    "probes": http1.probes,
    "handshakes": http1.handshakes,
    "rapid-reset": http2.rapid_reset,
    "continuation": http2.continuation,
}


def main(name: str, address: str, host: str, sources: str = "") -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    door = Door(address, host, sources)
    if name == "idle":
        threads = start(BY_NAME[name], door)
        while door.met["opened"] < http1.KEPT:
            door.over.wait(http1.PAUSE)
    else:
        step_back()
        threads = start(BY_NAME[name], door)
    print("ready", flush=True)
    signal.sigwait({signal.SIGINT})
    door.over.set()
    for thread in threads:
        thread.join(PATIENCE if name == "idle" else 0)
    print(json.dumps(door.met.copy()), flush=True)


def start(attack: Callable[[Door], None], door: Door) -> list[threading.Thread]:
    """Threads that end with the process, wherever they are."""
    threads = [threading.Thread(target=attack, args=(door,), daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    return threads


def step_back() -> None:
    """Take less of the CPU than others, whose sessions are scheduled against this one's."""
    os.nice(19)
    with contextlib.suppress(OSError):  # not every kernel groups processes by session
        Path("/proc/self/autogroup").write_text(f"{NICE}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
