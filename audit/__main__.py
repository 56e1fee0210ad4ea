"""``python -m audit [ROWS…]``: boot a machine, let every tool judge it, print one table.

ROWS are names of modules in audit/rows; without any, all of them. The status is 1 when a row
failed. The table is also in build/audit.json.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from appliance.errors import ApplianceError
from audit import table
from audit.collect import collect, modules
from audit.row import Row, Verdict
from machine import names
from machine.instance import Machine

NAME = "audit"
RESULT = names.CHECKOUT / "build/audit.json"


def main(arguments: Sequence[str]) -> int:
    check(arguments)
    rows: list[Row] = []
    with subject() as machine:
        for row in collect(machine, arguments):
            rows.append(row)
            table.save(rows, RESULT)  # what an interruption of a long row leaves is worth having
    print(f"\n{table.text(rows)}\n\nAlso in {RESULT}.")
    return int(any(row.verdict is Verdict.FAILED for row in rows))


def check(arguments: Sequence[str]) -> None:
    if unknown := set(arguments) - set(modules()):
        raise ApplianceError(
            f"There are no rows named {', '.join(sorted(unknown))}.",
            f"There are {', '.join(modules())}.",
        )


@contextmanager
def subject() -> Iterator[Machine]:
    """A fresh machine that is removed in the end, whatever the tools have done to it."""
    Machine(names.place(NAME)).down()  # what an interrupted audit left
    try:
        yield Machine.up(NAME)
    finally:
        Machine(names.place(NAME)).down()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ApplianceError as error:
        sys.exit(f"audit: {error.message}\n       {error.hint}")
