"""How far something long is: one line that changes on a terminal, a few lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_CLEAR = "\r\x1b[K"


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A function that shows a status on standard error; the line is gone afterwards."""
    last = ""

    def show(status: str) -> None:
        nonlocal last
        if status == last:
            return
        last = status
        if sys.stderr.isatty():
            print(f"{_CLEAR}{status}", end="", file=sys.stderr, flush=True)
        elif status:
            print(status, file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if last and sys.stderr.isatty():
            print(_CLEAR, end="", file=sys.stderr, flush=True)


def say(line: str) -> None:
    """One line of what is done, at once."""
    print(line, flush=True)
