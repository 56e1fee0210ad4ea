"""The ways in which a secret may stand in a text."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Iterator
from urllib.parse import quote

_NOISE = re.compile(r"[^a-z0-9]+")
# Of ASCII alone: elsewhere a letter in lower case may be two characters, and places would shift.
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def squeezed(text: str) -> str:
    """Letters and digits alone, in lower case.

    Wrapped lines, groups of four, quotes, escapes and colons between bytes make no difference
    then, and neither does the case.
    """
    return _NOISE.sub("", lower(text))


def lower(text: str) -> str:
    return text.translate(_LOWER)


def forms(secret: str) -> Iterator[str]:
    """The secret itself, and as an encoder would write it, alone or amid other text."""
    raw = secret.encode("utf-8", "surrogateescape")
    yield secret
    yield quote(raw, safe="")
    yield "".join(f"%{byte:02x}" for byte in raw)
    yield raw.hex()
    yield "".join(f"\\u{ord(character):04x}" for character in secret)
    for before in range(3):
        yield _base64_amid(raw, before)


def _base64_amid(raw: bytes, before: int) -> str:
    """What base64 makes of these bytes whatever follows them, after ``before`` others.

    Three bytes become four characters, so there are three ways to fall. The characters at either
    end that depend on the neighbours are left out.
    """
    encoded = base64.b64encode(bytes(before) + raw).decode("ascii")
    first = -(-8 * before // 6)
    return encoded[first : 8 * (before + len(raw)) // 6]
