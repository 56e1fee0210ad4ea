"""Certificates as an operator brings them: from a CA of one's own, with an intermediate."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from appliance import names

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


def ec_key(curve: ec.EllipticCurve | None = None) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve or ec.SECP256R1())


def key_pem(key: Key, password: bytes = b"") -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL
        if not password
        else serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption(),
    )


@dataclass(frozen=True)
class Entity:
    """A certificate with its key, which may issue others."""

    certificate: x509.Certificate
    key: Key = field(repr=False)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return key_pem(self.key)


def issue(
    common_name: str,
    *,
    by: Entity | None = None,
    key: Key | None = None,
    hosts: Sequence[str] = (),
    ca: bool = False,
    starts: dt.datetime = NOW - DAY,
    ends: dt.datetime = NOW + 90 * DAY,
    digest: hashes.SHA256 | hashes.SHA384 | None = None,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> Entity:
    """A certificate; self-signed unless ``by`` somebody."""
    own = key or ec_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if hosts:
        alternatives: list[x509.GeneralName] = []
        for host in hosts:
            address = names.as_address(host)
            alternatives.append(x509.IPAddress(address) if address else x509.DNSName(host))
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return Entity(builder.sign(by.key if by else own, digest or hashes.SHA256()), own)


@dataclass(frozen=True)
class Authority:
    """A root, and an intermediate that issues."""

    root: Entity
    intermediate: Entity

    @classmethod
    def new(cls, ends: dt.datetime = NOW + 900 * DAY) -> Authority:
        root = issue("A root of one's own", ca=True, ends=NOW + 900 * DAY)
        return cls(root, issue("An intermediate", by=root, ca=True, ends=ends))

    def chain(self, leaf: Entity) -> bytes:
        """What a certificate authority delivers: the leaf, then the intermediate."""
        return leaf.pem + self.intermediate.pem
