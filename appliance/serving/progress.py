"""How far a download is, as the unit's status, for `systemctl status` and infinity-set-model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.serving.notify import notify

INTERVAL = 0.5  # seconds between two looks
WIDTH = 30  # characters of the bar


@contextmanager
def shown(repo: str, size: int, folder: Path) -> Iterator[None]:
    """Tell systemd how much of ``size`` bytes lies in ``folder``, until the body is done."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(INTERVAL):
            notify(f"STATUS={bar(repo, arrived(folder), size)}")

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    notify(f"STATUS={bar(repo, size, size)}")


def arrived(folder: Path) -> int:
    """Bytes that are there, finished or not."""
    total = 0
    for path in (folder / "blobs").glob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # just finished, under its final name
            continue
    return total


def bar(repo: str, done: int, size: int) -> str:
    """One line."""
    part = min(1.0, done / size) if size else 1.0
    filled = int(part * WIDTH)
    return f"{repo} [{'#' * filled}{'.' * (WIDTH - filled)}] {part:4.0%} of {size / 1e6:.1f} MB"
