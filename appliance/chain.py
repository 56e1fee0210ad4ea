"""The operator's certificate and key, checked before anything is changed."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from appliance import tls
from appliance.errors import ApplianceError

# What the ciphers and curves of nginx/infinity/tls.conf and OpenSSL's security level 2 leave.
SHORTEST_RSA = 2048  # bits
CURVES = (ec.SECP256R1, ec.SECP384R1)
KINDS = "RSA of 2048 bits or more, or an elliptic curve, P-256 or P-384"
_WEAK = (hashes.MD5, hashes.SHA1)
_SERVER = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
_TO_PEM = "It is to be PEM: text that begins with -----BEGIN; `openssl` converts other forms."
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Pair:
    """A certificate that nginx can show: ``chain`` is leaf first and without a root, PEM."""

    leaf: x509.Certificate
    chain: bytes
    key: bytes = field(repr=False)


def checked(chain_pem: bytes, key_pem: bytes, hosts: Sequence[str], now: dt.datetime) -> Pair:
    """A pair with which clients accept this machine under all of its names.

    Whether they trust who issued it is theirs to know.

    Args:
        chain_pem: the certificate, then each one's issuer.
        key_pem: its private key.
        hosts: the names that are served.
        now: the present time, with its zone.

    Raises:
        ApplianceError: the first thing that is wrong with it.
    """
    try:
        chain = x509.load_pem_x509_certificates(chain_pem)
    except (ValueError, x509.InvalidVersion) as error:
        raise ApplianceError(
            "The certificate file holds no readable certificate.", _TO_PEM
        ) from error
    key = _key(key_pem)
    try:
        _belong(chain, key)
        chain = _in_order(chain)
        for certificate in chain:
            _in_date(certificate, now)
            _well_signed(certificate)
        _for_servers(chain[0])
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ApplianceError(
            f"The certificate cannot be understood: {str(error).rstrip('.')}.",
            "Check it with `openssl x509 -text -noout -in FILE`.",
        ) from error
    _covers(chain[0], hosts)
    return Pair(
        leaf=chain[0],
        chain=b"".join(each.public_bytes(serialization.Encoding.PEM) for each in chain),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _key(pem: bytes) -> Key:
    # curve parameters of their own may come first (openssl ecparam -genkey)
    found = re.search(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*", pem, re.DOTALL)
    try:
        key = serialization.load_pem_private_key(found[0] if found else b"", None)
    except TypeError as error:  # what cryptography raises where a passphrase is needed
        raise ApplianceError(
            "The private key is encrypted: nginx would ask for its passphrase at every start.",
            "Write it without one: `openssl pkey -in FILE -out NEWFILE`, under umask 077.",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ApplianceError("The key file holds no readable private key.", _TO_PEM) from error
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size >= SHORTEST_RSA:
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, CURVES):
        return key
    raise ApplianceError("nginx cannot use a key of this kind or length.", f"Use {KINDS}.")


def _belong(chain: Sequence[x509.Certificate], key: Key) -> None:
    public = key.public_key()
    fits = [certificate.public_key() == public for certificate in chain]
    if fits[0]:
        return
    if any(fits):
        raise ApplianceError(
            "The key's own certificate is not the first in the file.",
            "Put it first, then the certificate of its issuer, and so on.",
        )
    raise ApplianceError(
        "The key and the certificate do not belong together.",
        "Compare what `openssl x509 -pubkey -noout -in CERT` and "
        "`openssl pkey -pubout -in KEY` print.",
    )


def _in_order(chain: list[x509.Certificate]) -> list[x509.Certificate]:
    """The chain without a root, which every client that trusts it has."""
    for lower, upper in pairwise(chain):
        if not _issued(lower, upper):
            raise ApplianceError(
                f"The chain is not in order: {_name(lower)} is not issued by {_name(upper)}, "
                "which comes next.",
                "Put the certificate first, then each one's issuer; leave out what is neither.",
            )
    return chain[:-1] if len(chain) > 1 and _issued(chain[-1], chain[-1]) else chain


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, InvalidSignature):
        return False
    return certificate == issuer or _may_issue(issuer)


def _may_issue(issuer: x509.Certificate) -> bool:
    try:
        return issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _in_date(certificate: x509.Certificate, now: dt.datetime) -> None:
    starts, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if starts <= now < ends:
        return
    what = f"has expired on {ends:%Y-%m-%d}" if now >= ends else f"begins on {starts:%Y-%m-%d}"
    raise ApplianceError(
        f"The certificate of {_name(certificate)} {what}; it is {now:%Y-%m-%d %H:%M} UTC here.",
        "Get one that is valid now, or set this machine's clock.",
    )


def _well_signed(certificate: x509.Certificate) -> None:
    if isinstance(certificate.signature_hash_algorithm, _WEAK):
        raise ApplianceError(
            f"{_name(certificate)} is signed with a hash that clients no longer accept.",
            "Have it issued again with SHA-256.",
        )


def _for_servers(leaf: x509.Certificate) -> None:
    try:
        usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if not _SERVER & set(usage):
        raise ApplianceError(
            "The certificate is not for a server.", "Its extended key usage lacks serverAuth."
        )


def _covers(leaf: x509.Certificate, hosts: Sequence[str]) -> None:
    if missing := tls.uncovered(leaf.public_bytes(serialization.Encoding.PEM), hosts):
        raise ApplianceError(
            f"The certificate does not cover {', '.join(missing)}.",
            "Get one with every name among its alternative names, "
            "or serve other names with `infinity-set-hostname`.",
        )


def _name(certificate: x509.Certificate) -> str:
    return repr(certificate.subject.rfc4514_string())
