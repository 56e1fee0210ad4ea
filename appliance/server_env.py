"""infinity.env, the operator's file of what the server serves, as systemd reads it."""

from __future__ import annotations

from collections.abc import Mapping


def values(text: str) -> dict[str, str]:
    """What it sets; of several lines with one name the last counts."""
    found = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith(("#", ";")):
            found[key.strip()] = value.strip().strip("\"'")
    return found


def updated(text: str, changes: Mapping[str, str]) -> str:
    """The file with these values in their lines, or at its end; every other line stays.

    Args:
        text: the file.
        changes: values that need no quotes.
    """
    lines = text.removesuffix("\n").split("\n")
    for key, value in changes.items():
        places = [
            at for at, line in enumerate(lines) if line.partition("=")[0].strip() == key
        ]  # a comment's name begins with its mark
        if places:
            lines[places[-1]] = f"{key}={value}"
        else:
            lines.append(f"{key}={value}")
    return "".join(f"{line}\n" for line in lines)
