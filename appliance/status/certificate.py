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
    ours = settings is not None and tls.fingerprint(pem) in settings.issued
    hosts = [settings.hostname, *settings.aliases] if settings else []
    ends = found.not_valid_after_utc
    return Certificate(
        subject=found.subject.rfc4514_string(),
        issuer=found.issuer.rfc4514_string(),
        not_before=_text(found.not_valid_before_utc),
        not_after=_text(ends),
        days_left=(ends - dt.datetime.now(dt.UTC)).days,
        maker="instance" if ours else "operator",
        covers_host=covers(found, pem, hosts),
        key_matches=tls.belongs(_key(paths), pem),
    )


def covers(certificate: x509.Certificate, pem: bytes, hosts: list[str]) -> bool:
    """Whether clients accept it for every host; an operator's may have a wildcard."""
    if tls.covers(pem, hosts):
        return True
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        known = {name.lower() for name in names.get_values_for_type(x509.DNSName)}
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return False
    return all({host, "*." + host.partition(".")[2]} & known for host in hosts)


def _key(paths: Paths) -> bytes:
    try:
        return paths.certificate_key.read_bytes()
    except OSError:
        return b""


def _text(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
