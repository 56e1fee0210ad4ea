"""Moments as text: RFC 3339 in UTC, to the second."""

from __future__ import annotations

import datetime as dt
import time


def stamp(seconds: float) -> str:
    """A moment given in seconds since 1970."""
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def now() -> str:
    return stamp(time.time())


def of_monotonic(microseconds: int) -> str | None:
    """A moment of systemd's monotonic clock, which a change of the date does not move."""
    if microseconds == 0:
        return None
    return stamp(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + microseconds / 1e6)


def age(text: str) -> float:
    """Seconds since a moment that ``stamp`` wrote."""
    return time.time() - dt.datetime.fromisoformat(text).timestamp()
