"""The commands of a page's section, with a reader's own values in them, typed as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lint_tools import REPO

PLACE = re.compile(r"<([A-Za-z][A-Za-z-]*)>")


def blocks(page: str, heading: str) -> list[str]:
    """The command blocks of one section, subsections and all."""
    text = "\n" + (REPO / page).read_text()
    level = heading.partition(" ")[0]
    _, found, after = text.partition(f"\n{heading}\n")
    assert found, f"{page} has no section {heading!r}"
    section = re.split(rf"^{level} ", after, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def filled(block: str, values: Mapping[str, str]) -> str:
    """The block with each <place> filled; a place that nobody has a value for is a failure."""
    missing = set(PLACE.findall(block)) - values.keys()
    assert not missing, f"who reads this cannot know {missing}"
    return PLACE.sub(lambda found: values[found[1]], block)


def typed(block: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The block, typed into a shell in that folder, in which the first failure ends it."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    return subprocess.run(
        ["bash", "-euo", "pipefail"],
        input=block,
        cwd=folder,
        env={**os.environ, "PATH": path, "AWS_PAGER": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
