"""shellcheck on every shell script, found by name or by its first line."""

from __future__ import annotations

import re
from pathlib import Path

from lint_tools import REPO, sources

from appliance.run import run
from machine import unpacked

SHEBANG = re.compile(rb"#!\s*/(\S+\s+)?\S*\b(ba|da)?sh\b|# shellcheck shell=")


def is_shell(path: Path) -> bool:
    if path.suffix == ".sh":
        return True
    with path.open("rb") as file:
        return SHEBANG.match(file.readline(80)) is not None


def test_shellcheck_finds_nothing() -> None:
    scripts = sorted(str(path.relative_to(REPO)) for path in sources() if is_shell(path))
    assert {".ci/run", "packer/provision.sh", "packer/clean.sh"} <= set(scripts)
    program = unpacked.find("shellcheck", "shellcheck")
    done = run([program, "--external-sources", *scripts], cwd=REPO, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
