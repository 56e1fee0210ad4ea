"""pip-audit on what the image's two Python environments pin: known vulnerabilities."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from audit.row import Row, judged, untested
from machine import wheels
from machine.instance import Machine

TOOL, BAR = "pip-audit", "none known"


@dataclass(frozen=True)
class Judgement:
    """What the database said of a list of packages; ``skipped`` ones it does not know."""

    judged: int
    skipped: tuple[str, ...]
    vulnerable: tuple[str, ...]


def rows(_: Machine) -> Iterator[Row]:
    python = ".".join(platform.python_version_tuple()[:2])
    for name in ("server", "appliance"):
        control = f"Python packages of the {name} environment"
        pins = wheels.lock_file(name, python).read_text()
        if name == "server":
            # Installed apart from its lock; a database knows the release, not the build.
            pins += f"\ntorch=={wheels.TORCH.partition('+')[0]}\n"
        try:
            found = audit(pins)
        except ApplianceError as error:
            yield untested(control, TOOL, BAR, f"its database cannot be reached: {error.message}")
            continue
        if not found.judged:
            yield untested(control, TOOL, BAR, "its database knows none of them from here")
            continue
        said = f"{len(found.vulnerable)} of {found.judged} {' '.join(found.vulnerable)}".strip()
        passed = not found.vulnerable and not found.skipped
        unknown = f", unknown: {' '.join(found.skipped)}" if found.skipped else ""
        yield judged(control, TOOL, BAR, said + unknown, passed=passed)


def audit(pins: str) -> Judgement:
    """Ask pip-audit about ``name==version`` lines; hashes and comments may be among them.

    Raises:
        ApplianceError: it gave no answer, as when its database cannot be reached.
    """
    names = [line.split(" ")[0] for line in pins.splitlines() if line[:1].isalnum()]
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text("\n".join(names) + "\n")
        program = Path(sys.executable).parent / "pip-audit"
        options = ("--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off")
        argv = [str(program), "--requirement", str(wanted), *options, "--timeout", "15"]
        done = run(argv, check=False, timeout=300)
    return read(done.stdout, done.stderr)


def read(stdout: str, stderr: str) -> Judgement:
    """pip-audit's JSON. A package that it skipped has not been judged."""
    try:
        packages = json.loads(stdout)["dependencies"]
    except (ValueError, KeyError):
        last = (stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ApplianceError(f"pip-audit gave no answer ({last[-160:]})") from None
    skipped = tuple(package["name"] for package in packages if "skip_reason" in package)
    vulnerable = tuple(
        f"{package['name']}:{vulnerability['id']}"
        for package in packages
        for vulnerability in package.get("vulns", [])
    )
    return Judgement(len(packages) - len(skipped), skipped, vulnerable)
