"""The table for people and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from appliance.files import write_atomic
from audit.row import Row

HEAD = ("control", "tool", "bar", "measured", "")


def text(rows: Sequence[Row]) -> str:
    """Columns as wide as their widest entry; one row a line."""
    lines = [HEAD, *((r.control, r.tool, r.bar, r.measured, r.verdict.value) for r in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ruled = [lines[0], tuple("-" * width for width in widths), *lines[1:]]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in ruled
    )


def save(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as a JSON array of objects, with the table's column names as keys."""
    objects = [asdict(row) | {"verdict": row.verdict.value} for row in rows]
    path.parent.mkdir(exist_ok=True)
    write_atomic(path, json.dumps(objects, indent=2) + "\n", 0o644)
