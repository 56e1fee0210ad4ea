"""Names in, key and self-signed certificate out; nothing is read or written here."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from appliance import names
from appliance.errors import ApplianceError
from appliance.glance import ORGANIZATION, in_order

VALIDITY = dt.timedelta(days=825)  # the longest that Apple's clients accept
BACKDATED = dt.timedelta(hours=1)  # a client's clock may be slow
LONGEST_COMMON_NAME = 64  # characters, RFC 5280 appendix A


def new_key() -> bytes:
    """An ECDSA P-256 private key, PEM (PKCS #8, not encrypted)."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def self_signed(key_pem: bytes, hosts: Sequence[str], now: dt.datetime) -> bytes:
    """A certificate for ``hosts``, PEM.

    It is its own trust anchor: clients get it as their CA file. So it carries what a strict
    verifier asks for (X509_V_FLAG_X509_STRICT, Python's default since 3.13) and yet may not
    sign others.

    Args:
        key_pem: the private key to sign with.
        hosts: DNS names or IP addresses in the form of ``names.normal``; the first one is
            the subject.
        now: the present time, with its zone.
    """
    key = _private_key(key_pem)
    public = key.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    name = _subject(hosts[0])
    start = now - BACKDATED
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + VALIDITY)
        .add_extension(
            x509.SubjectAlternativeName([_alternative(h) for h in hosts]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def belongs(key_pem: bytes, certificate_pem: bytes) -> bool:
    """Whether the private key is that of the certificate."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, None)
        return key.public_key() == certificate.public_key()
    except (ValueError, TypeError, x509.InvalidVersion, UnsupportedAlgorithm):
        return False


def covers(certificate_pem: bytes, hosts: Sequence[str]) -> bool:
    """Whether a client accepts the certificate for every one of ``hosts`` (RFC 6125)."""
    return not uncovered(certificate_pem, hosts)


def uncovered(certificate_pem: bytes, hosts: Sequence[str]) -> list[str]:
    """Those of ``hosts`` that the certificate's alternative names leave out.

    A wildcard stands for exactly one label, the first. A common name counts for nothing.
    """
    known = _alternatives(certificate_pem)
    patterns = {name.value.lower() for name in known if isinstance(name, x509.DNSName)}
    return [
        host
        for host in hosts
        if _alternative(host) not in known
        and (names.as_address(host) or not {host, "*." + host.partition(".")[2]} & patterns)
    ]


def is_for(certificate_pem: bytes, hosts: Sequence[str]) -> bool:
    """Whether ``self_signed`` would make a certificate with the same subject and names."""
    if set(map(_alternative, hosts)) != set(_alternatives(certificate_pem)):
        return False
    return x509.load_pem_x509_certificate(certificate_pem).subject == _subject(hosts[0])


def is_own(certificate_pem: bytes, key_pem: bytes) -> bool:
    """Whether the first certificate in the file is one that ``self_signed`` made from this key.

    It is told by what only we would put there: our name as its subject's organisation, a key of
    our kind, and a signature by it, which is the one beside it. A record of what was made could be
    lost, and would then let our certificate pass for the operator's and never be renewed.

    Args:
        certificate_pem: the certificate's file.
        key_pem: the key's file; empty where it is lost, which the certificate outlives.
    """
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        certificate.verify_directly_issued_by(certificate)
        public = certificate.public_key()
        subject = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    except (ValueError, TypeError, x509.InvalidVersion, InvalidSignature, UnsupportedAlgorithm):
        return False
    ours = isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, ec.SECP256R1)
    if not ours or [attribute.value for attribute in subject] != [ORGANIZATION]:
        return False
    return not key_pem or belongs(key_pem, certificate_pem)


def is_due(certificate_pem: bytes, now: dt.datetime) -> bool:
    """Whether it is not valid now, or will not be for much longer."""
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    return not in_order(certificate.not_valid_before_utc, certificate.not_valid_after_utc, now)


def first(certificate_pem: bytes) -> bytes:
    """The first certificate in the file, PEM; empty when there is none."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except (ValueError, x509.InvalidVersion):
        return b""
    return certificate.public_bytes(serialization.Encoding.PEM)


def _alternatives(certificate_pem: bytes) -> list[x509.GeneralName]:
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, x509.InvalidVersion, x509.ExtensionNotFound, x509.DuplicateExtension):
        return []
    return list(found.value)


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ApplianceError("The TLS key is not a readable PEM key.", _KEY_HINT) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ApplianceError("The TLS key is not one that this appliance made.", _KEY_HINT)
    return key


_KEY_HINT = "Remove /etc/ssl/infinity/infinity.key and .crt; first boot makes new ones."


def _subject(host: str) -> x509.Name:
    """CN, then O. A name too long for a CN is left to the alternative name, which clients read."""
    plain = host.strip("[]")
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)]
    if len(plain) <= LONGEST_COMMON_NAME:
        attributes.insert(0, x509.NameAttribute(NameOID.COMMON_NAME, plain))
    return x509.Name(attributes)


def _alternative(host: str) -> x509.GeneralName:
    address = names.as_address(host)
    if address is not None:
        return x509.IPAddress(ipaddress.ip_address(address))
    return x509.DNSName(host)


def _key_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
