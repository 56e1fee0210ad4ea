"""The canary: an embedding inside the process every few seconds.

It feeds everything that asks whether the model works: `/readyz`, systemd's watchdog, the
requests that wait.

Stock Infinity's worker dies of an exception and the process lives on without it, /health
included, and every request waits for ever. Here a pass that raises is followed by a canary
at once, and a canary that fails or stays away ends the process, for systemd to start it anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from appliance.serving.metrics import Metrics
from appliance.serving.notify import notify
from appliance.serving.passes import PATIENCE, Passes

log = logging.getLogger("appliance.serving")

INTERVAL = 3.0  # seconds between canaries
LOOK = 0.5  # seconds between looks at one that is out


class Health:
    """Whether the model answers; made inside the event loop."""

    def __init__(self) -> None:
        self.ready = False
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.suspected = asyncio.Event()

    def suspect(self) -> None:
        """A pass raised: look at once."""
        self.suspected.set()

    def fail(self) -> None:
        """Nothing more comes; whoever waits is told so."""
        self.ready = False
        if not self.failed.done():
            self.failed.set_result(None)


async def watch(
    health: Health,
    canaries: Sequence[Callable[[], Awaitable[None]]],
    passes: Passes,
    metrics: Metrics,
) -> None:
    """Send canaries until one fails, then say so and return.

    Args:
        health: what is kept up to date.
        canaries: one a model; each raises unless a good answer came back.
        passes: what the models are doing.
        metrics: told the same as ``health``.
    """
    said = False
    while True:
        health.suspected.clear()
        started = time.monotonic()
        if not await _all_return(canaries, passes):
            break
        health.ready = True
        metrics.ready.set(1)
        metrics.canary.set(time.monotonic() - started)
        notify("WATCHDOG=1") if said else notify("READY=1", "WATCHDOG=1", "STATUS=Serving.")
        said = True
        await _pause(health)
    metrics.ready.set(0)
    notify("STATUS=The model failed; restarting.")
    health.fail()


async def _pause(health: Health) -> None:
    try:
        await asyncio.wait_for(health.suspected.wait(), INTERVAL)
    except TimeoutError:
        return
    health.ready = False  # until the next canary is back


async def _all_return(canaries: Sequence[Callable[[], Awaitable[None]]], passes: Passes) -> bool:
    for canary in canaries:
        task = asyncio.ensure_future(canary())
        sent = time.monotonic()
        while not task.done():
            await asyncio.wait({task}, timeout=LOOK)
            if not task.done() and stuck(passes, sent, time.monotonic()):
                log.error("The model hangs: a forward pass does not come back.")
                task.cancel()
                return False
            # Slow but moving, as behind a text that fills a large window: still alive.
            if not task.done():
                notify("WATCHDOG=1")
        if error := task.exception():
            log.error("The canary failed: %r", error)
            return False
    return True


def stuck(passes: Passes, sent: float, now: float) -> bool:
    """Whether a canary that is out will not come back: its pass is overdue, or none runs."""
    if passes.busy():
        return passes.overdue(now)
    return now - max(sent, passes.idle_since) > PATIENCE
