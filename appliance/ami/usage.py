"""The listing's usage instructions, taken from docs/guide.md so that the two never disagree."""

from __future__ import annotations

import re

from appliance.errors import ApplianceError

# What AWS Marketplace takes; VALIDATE has the last word.
LONGEST_INSTRUCTIONS = 4000  # characters
LONGEST_TITLE = 72
LONGEST_NOTES = 30000

# Rows of the guide's Maintenance table, by their first cell, under the headings that AWS
# Marketplace asks for.
MAINTENANCE = {
    "HEALTH": ("health", "test the gate", "logs"),
    "BACKUP AND RECOVERY": ("backup", "an image of your instance"),
    "UPGRADES": ("security updates", "a newer Infinity"),
}


CHANGES = ("sudo infinity-api-key rotate", "sudo infinity-set-password")
LINES = re.MULTILINE
TEXT = re.MULTILINE | re.DOTALL


def instructions(guide: str) -> str:
    """Plain text: connect, sensitive data, first call, rotation, health, backup, costs, upgrades.

    Args:
        guide: the text of docs/guide.md.

    Raises:
        ApplianceError: the guide no longer says one of these, or the text is too long.
    """
    secrets = f"sudo cat /root/infinity-credentials.txt\n{_credentials(guide)}"
    parts = [
        ("CONNECT", _fence(guide, "Step 2", "sh")),
        ("WHERE SENSITIVE DATA LIVES", secrets),
        ("CHANGE KEY AND PASSWORD", _commands(guide, "Step 12", CHANGES)),
        *((title, _rows(guide, rows)) for title, rows in MAINTENANCE.items()),
        ("COSTS", _bullet(guide, "An instance type.")),
    ]
    text = "\n\n".join(f"{title}\n{_plain(body)}" for title, body in parts) + "\n"
    if len(text) > LONGEST_INSTRUCTIONS or not text.isascii():
        raise ApplianceError(
            f"The usage instructions have {len(text)} characters, ASCII: {text.isascii()}; "
            f"the listing takes {LONGEST_INSTRUCTIONS} in ASCII.",
            "Shorten what appliance/ami/usage.py takes from docs/guide.md.",
        )
    return text


def _section(guide: str, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\b.*?(?=^## |\Z)", guide, TEXT)
    if not found:
        raise ApplianceError(f"docs/guide.md has no section {heading!r}.")
    return found[0]


def _fence(guide: str, heading: str, language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", _section(guide, heading), TEXT)
    if not found:
        raise ApplianceError(f"The guide's {heading} has no {language} block.")
    return found[1].strip()


def _credentials(guide: str) -> str:
    """The entries of the credentials file, and what each is for."""
    section = _section(guide, "Step 2")
    rows = re.findall(r"^\| `(INFINITY_[^|]+?) \| (.+?) \|$", section, LINES)
    if not rows:
        raise ApplianceError("The guide's Step 2 has no table of the credentials file.")
    return "\n".join(f"{name}: {use}" for name, use in rows)


def _commands(guide: str, heading: str, programs: tuple[str, ...]) -> str:
    """The first command of each program in a section's console blocks."""
    lines = _section(guide, heading).splitlines()
    found = [next((line for line in lines if line.startswith(wanted)), "") for wanted in programs]
    if missing := [name for name, line in zip(programs, found, strict=True) if not line]:
        raise ApplianceError(f"The guide's {heading} does not show {', '.join(missing)}.")
    return "\n".join(found)


def _rows(guide: str, names: tuple[str, ...]) -> str:
    table = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", _section(guide, "Maintenance"), LINES))
    if missing := [name for name in names if name not in table]:
        raise ApplianceError(f"The guide's Maintenance has no row {', '.join(missing)}.")
    return "\n".join(f"{name}: {table[name]}" for name in names)


def _bullet(guide: str, start: str) -> str:
    found = re.search(rf"^\* ({re.escape(start)}.*?)(?=^\* |^$)", guide, TEXT)
    if not found:
        raise ApplianceError(f"docs/guide.md has no item that starts with {start!r}.")
    return " ".join(found[1].split())


def _plain(text: str) -> str:
    """Without Markdown's marks, in ASCII."""
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).replace("`", "")
    for character, plain in {"\u2013": "-", "…": "...", "→": "->", "≥": ">="}.items():
        text = text.replace(character, plain)
    return text
