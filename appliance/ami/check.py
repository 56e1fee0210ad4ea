"""Every rule of AWS Marketplace for an image, and ours, tried on a root filesystem.

Needs nothing but Python's own library: it runs inside the image at the end of its build.
The rules: https://docs.aws.amazon.com/marketplace/latest/userguide/product-and-ami-policies.html
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from appliance.ami import rules_keys, rules_logins, rules_software, rules_traces
from appliance.ami.tree import Finding, Tree
from appliance.errors import ApplianceError

Rule = Callable[[Tree], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    *rules_logins.RULES,
    *rules_keys.RULES,
    *rules_traces.RULES,
    *rules_software.RULES,
)


def check(root: Path) -> list[Finding]:
    """Everything in the root filesystem that an image may not have.

    Args:
        root: of a disk that is not in use, or ``/`` at the end of provisioning.

    Raises:
        ApplianceError: there is no system below ``root``, or part of it cannot be read.
    """
    tree = Tree(root.resolve())
    if not (tree.root / "etc").is_dir():
        raise ApplianceError(f"{root} is no root filesystem.", "Name the folder that holds etc/.")
    try:
        return [finding for rule in RULES for finding in rule(tree)]
    except PermissionError as error:
        raise ApplianceError(
            f"{error.filename} cannot be read.", "A disk is checked as root."
        ) from error


def main(root: Path) -> int:
    """Print one line a finding; 1 if there is any."""
    findings = check(root)
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} findings: this is not to become an image.", file=sys.stderr)
        return 1
    print(f"{root}: {len(RULES)} rules, no finding")
    return 0
