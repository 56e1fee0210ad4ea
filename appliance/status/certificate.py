"""The certificate that nginx shows: until when it is good, and whose it is."""

from __future__ import annotations

import datetime as dt

from cryptography import x509

from appliance import tls
from appliance.errors import ApplianceError
from appliance.paths import Paths
from appliance.settings import Settings
from appliance.status.report import Certificate


def read(paths: Paths, settings: Settings | None) -> Certificate:
    """The first certificate of the file.

    Raises:
        ApplianceError: there is none.
        OSError: it cannot be read.
    """
    pem = paths.certificate.read_bytes()
    try:
        found = x509.load_pem_x509_certificate(pem)
    except (ValueError, x509.InvalidVersion) as error:
        raise ApplianceError(
            f"{paths.certificate} holds no certificate in PEM.",
            "Put yours there, or remove it and its key; first boot makes new ones.",
        ) from error
    key, ends = _key(paths), found.not_valid_after_utc
    return Certificate(
        subject=found.subject.rfc4514_string(),
        issuer=found.issuer.rfc4514_string(),
        not_before=_text(found.not_valid_before_utc),
        not_after=_text(ends),
        days_left=(ends - dt.datetime.now(dt.UTC)).days,
        maker="instance" if tls.is_own(pem, key) else "operator",
        covers_host=tls.covers(pem, settings.hosts if settings else []),
        key_matches=tls.belongs(key, pem),
    )


def _key(paths: Paths) -> bytes:
    try:
        return paths.certificate_key.read_bytes()
    except OSError:
        return b""


def _text(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
