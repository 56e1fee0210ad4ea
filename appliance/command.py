"""What the operator's commands have in common: root, one lock, one way to fail."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from appliance import settings
from appliance.activate import undo
from appliance.apply import locked
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.paths import Paths
from appliance.settings import Settings

DONE, FAILED, WRONG_USAGE = 0, 1, 2
EXITS = "0 done, 1 failed and put back, 2 wrong use"
UNCHANGED = "Nothing was changed."


class UsageError(ApplianceError):
    """What was asked for cannot be meant."""


class _Parser(argparse.ArgumentParser):
    """Options are written out, in subcommands too: a typo is not taken for something else."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - argparse types them
        as_written = argparse.RawDescriptionHelpFormatter
        super().__init__(formatter_class=as_written, allow_abbrev=False, **options)


class Stopped(BaseException):
    """The command was told to end; whatever it has begun is put back on the way out."""


def parser(
    name: str, description: str | None, example: str, exits: str = EXITS
) -> argparse.ArgumentParser:
    """A parser whose help ends with an example.

    Args:
        name: the command, as typed.
        description: what it does.
        example: whole command lines.
        exits: what the exit statuses mean.
    """
    made = _Parser(
        prog=name,
        description=description,
        epilog=f"example:\n  {example}\n\nexit status: {exits}",
    )
    made.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)
    made.add_argument("--nginx", default="nginx", help=argparse.SUPPRESS)
    return made


def run(
    options: argparse.ArgumentParser, act: Callable[[argparse.Namespace, Gate], int | None]
) -> int:
    """Parse, demand root, act; an expected failure becomes one sentence on standard error.

    Returns:
        The exit status: what ``act`` returns, 0 for None.
    """
    given = options.parse_args()
    gate = Gate(Paths(given.root.absolute()), given.nginx)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        _demand_root(options.prog, gate)
        status = act(given, gate)
        sys.stdout.flush()
    except ApplianceError as error:
        print(f"{options.prog}: {error}", file=sys.stderr)
        return WRONG_USAGE if isinstance(error, UsageError) else FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        where = error.filename or "the system"
        print(f"{options.prog}: {where}: {error.strerror}. Hint: mend that, then try again.",
              file=sys.stderr)  # fmt: skip
        return FAILED
    except Stopped:
        print(f"{options.prog}: Stopped; what was not complete was put back.", file=sys.stderr)
        return FAILED
    return DONE if status is None else status


@contextmanager
def changing(gate: Gate) -> Iterator[Settings]:
    """Hold the lock, take back what a killed command left, and give the settings as they are.

    Raises:
        ApplianceError: what failed in the body, with the assurance that nothing has changed.
    """
    with locked(gate.paths.lock):
        undo(gate)
        known = settings.current(gate.paths)
        with unchanged():
            yield known


@contextmanager
def unchanged() -> Iterator[None]:
    """Add to the failure of the body that nothing has changed.

    Raises:
        ApplianceError: the same, with that assurance.
    """
    try:
        yield
    except UsageError:
        raise
    except ApplianceError as error:
        raise ApplianceError(f"{error.message} {UNCHANGED}", error.hint) from error


def _demand_root(name: str, gate: Gate) -> None:
    if gate.is_service and os.geteuid() != 0:
        raise UsageError(f"{name} needs root.", f"Run `sudo {name}`.")


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise Stopped
