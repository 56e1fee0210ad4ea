"""The certificate that the gate shows, seen as a client sees it.

The server may not read the gate's files, and the operator may replace the certificate at any
time, so it is asked for where it is used: in a TLS handshake on loopback.
"""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from dataclasses import dataclass
from typing import Any

HOST = "127.0.0.1"
PATIENCE = 2.0  # seconds

# X509_V_FLAG_NO_CHECK_TIME of OpenSSL's x509_vfy.h: an expired certificate is to be read as well.
_ANY_TIME = 0x200000


@dataclass(frozen=True)
class Certificate:
    """``end``: the last moment it is good for; ``own_issuer``: it is self-signed."""

    end: dt.datetime
    own_issuer: bool

    def days(self, now: dt.datetime) -> int:
        """Whole days that remain, negative after the end."""
        return (self.end - now).days


def shown(port: int) -> Certificate | None:
    """What is presented on a TLS port of loopback; None where no TLS is spoken there. Blocks."""
    try:
        found = _details(port, ssl.get_server_certificate((HOST, port), timeout=PATIENCE))
    except (OSError, ValueError):
        return None
    return Certificate(
        dt.datetime.fromtimestamp(ssl.cert_time_to_seconds(found["notAfter"]), dt.UTC),
        own_issuer=found["subject"] == found["issuer"],
    )


def _details(port: int, pem: str) -> dict[str, Any]:
    """Its fields. Python tells them of a verified certificate only, so it vouches for itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _ANY_TIME)
    context.load_verify_locations(cadata=pem)
    with (
        socket.create_connection((HOST, port), PATIENCE) as plain,
        context.wrap_socket(plain) as secure,
    ):
        return dict(secure.getpeercert() or {})
