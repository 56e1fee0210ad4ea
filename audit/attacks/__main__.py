"""One attacker: ``python -m audit.attacks NAME ADDRESS HOST [SOURCES]``.

Says "ready" once it is at full strength, and when it is interrupted what it met, as a JSON object.
"""

from __future__ import annotations

import functools
import json
import signal
import sys
import threading
from collections.abc import Callable

from audit.attacks import http1, http2
from audit.attacks.door import Door

THREADS = 16
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
    door = Door(address, host, sources)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threads = [threading.Thread(target=BY_NAME[name], args=(door,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    if name == "idle":
        wait_for_strength(door)
    print("ready", flush=True)
    signal.sigwait({signal.SIGINT})
    door.over.set()
    for thread in threads:
        thread.join()
    print(json.dumps(door.met))


def wait_for_strength(door: Door) -> None:
    while door.met["opened"] < http1.KEPT:
        door.over.wait(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
