"""What may stand as a host name: in nginx's configuration, in a certificate, in a URL."""

from __future__ import annotations

import ipaddress
import re

from appliance.errors import ApplianceError

LONGEST_NAME = 253  # characters, RFC 1035 without the trailing dot
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # RFC 1123


def as_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that ``name`` is (IPv6 with or without brackets), or None."""
    if "%" in name:  # a zone id has no meaning to others
        return None
    try:
        return ipaddress.ip_address(name[1:-1] if name[:1] == "[" and name[-1:] == "]" else name)
    except ValueError:
        return None


def normal(name: str) -> str:
    """Check a host name and return the one form of it that is used everywhere.

    Args:
        name: a DNS name (RFC 1123, an IDN gets its punycode) or an IP address.

    Returns:
        Lower case; an IPv6 address in brackets, as in a URL and in nginx's ``server_name``.

    Raises:
        ApplianceError: anything else, which includes white space, wildcards and every
            character that means something to nginx.
    """
    address = as_address(name)
    if address is not None:
        return f"[{address}]" if address.version == 6 else str(address)  # noqa: PLR2004
    lowered = name.lower()
    if not lowered.isascii():
        try:
            lowered = lowered.encode("idna").decode("ascii")
        except UnicodeError:
            raise _refused(name) from None
    labels = lowered.split(".")
    if len(lowered) > LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused(name)
    if labels[-1].isdigit():  # 10.0.0.256, 1.2.3: an address that is none
        raise _refused(name)
    return lowered


def _refused(name: str) -> ApplianceError:
    shown = name if len(name) <= 80 else name[:77] + "..."  # noqa: PLR2004
    return ApplianceError(
        f"{shown!r} is neither a DNS name nor an IP address.",
        "Use letters, digits, hyphens and dots, such as embeddings.example.com.",
    )
