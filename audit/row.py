"""One line of the table, and how to get several of one kind."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """What was found; UNTESTED says in ``measured`` why it could not be tried here."""

    PASSED = "passed"
    FAILED = "FAILED"
    UNTESTED = "untested"


@dataclass(frozen=True)
class Row:
    """A control, who judges it, what is demanded, and what was measured."""

    control: str
    tool: str
    bar: str
    measured: str
    verdict: Verdict


def judged(control: str, tool: str, bar: str, measured: str, *, passed: bool) -> Row:
    return Row(control, tool, bar, measured, Verdict.PASSED if passed else Verdict.FAILED)


def untested(control: str, tool: str, bar: str, why: str) -> Row:
    return Row(control, tool, bar, why, Verdict.UNTESTED)
