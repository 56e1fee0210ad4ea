"""The self-signed certificate, judged by a strict client that has it as its only trust anchor."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from appliance import glance, tls
from appliance.errors import ApplianceError

NOW = dt.datetime.now(dt.UTC)
LONG = ".".join(["a-long-label-of-a-private-name"] * 4) + ".internal"


def handshake(folder: Path, certificate: bytes, key: bytes, name: str) -> None:
    """TLS between two ends in this process; raises what the client objects to."""
    (folder / "crt").write_bytes(certificate)
    (folder / "key").write_bytes(key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "crt", folder / "key")
    client = ssl.create_default_context(cafile=str(folder / "crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()  # the client objected

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client.wrap_socket(ours, server_hostname=name).close()
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("ec2-203-0-113-7.compute.test", "ec2-203-0-113-7.compute.test"),
        ("203.0.113.7", "203.0.113.7"),
        ("[2001:db8::1]", "2001:db8::1"),
        (LONG, LONG),
    ],
)
def test_a_strict_client_trusts_it_for_its_name(tmp_path: Path, host: str, asked: str) -> None:
    key = tls.new_key()
    handshake(tmp_path, tls.self_signed(key, [host], NOW), key, asked)


def test_a_strict_client_refuses_it_for_another_name(tmp_path: Path) -> None:
    key = tls.new_key()
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, tls.self_signed(key, ["a.test"], NOW), key, "b.test")


def test_it_cannot_sign_others() -> None:
    made = x509.load_pem_x509_certificate(tls.self_signed(tls.new_key(), ["a.test"], NOW))
    assert made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert made.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is False


def test_it_lasts_825_days_from_a_little_before_now() -> None:
    made = x509.load_pem_x509_certificate(tls.self_signed(tls.new_key(), ["a.test"], NOW))
    assert made.not_valid_after_utc - made.not_valid_before_utc == dt.timedelta(days=825)
    assert NOW - dt.timedelta(hours=2) < made.not_valid_before_utc < NOW


def test_a_key_belongs_to_its_own_certificate_only() -> None:
    key, other = tls.new_key(), tls.new_key()
    made = tls.self_signed(key, ["a.test"], NOW)
    assert tls.belongs(key, made)
    assert not tls.belongs(other, made)
    assert not tls.belongs(b"no key", made)


def test_aliases_are_covered_too() -> None:
    made = tls.self_signed(tls.new_key(), ["a.test", "203.0.113.7"], NOW)
    assert tls.covers(made, ["203.0.113.7", "a.test"])
    assert not tls.covers(made, ["a.test", "b.test"])


@pytest.mark.parametrize(
    ("host", "common_name"),
    [
        ("a.test", "a.test"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("a" * 60 + ".com", "a" * 60 + ".com"),
    ],
)
def test_the_host_comes_before_the_organisation(host: str, common_name: str) -> None:
    made = x509.load_pem_x509_certificate(tls.self_signed(tls.new_key(), [host], NOW))
    assert [(each.oid, each.value) for each in made.subject] == [
        (NameOID.COMMON_NAME, common_name),
        (NameOID.ORGANIZATION_NAME, "cloudimg"),
    ]


def test_a_name_longer_than_64_is_an_alternative_name_only() -> None:
    made = x509.load_pem_x509_certificate(tls.self_signed(tls.new_key(), ["a" * 61 + ".com"], NOW))
    assert [each.oid for each in made.subject] == [NameOID.ORGANIZATION_NAME]
    assert tls.covers(made.public_bytes(serialization.Encoding.PEM), ["a" * 61 + ".com"])


def private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes = b"") -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption(),
    )


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (b"", "not a readable PEM key"),
        (b"\xff garbage", "not a readable PEM key"),
        (private(ec.generate_private_key(ec.SECP256R1()), b"secret"), "not a readable PEM key"),
        (private(rsa.generate_private_key(65537, 2048)), "not one that this appliance made"),
    ],
    ids=["empty", "garbage", "encrypted", "RSA"],
)
def test_a_key_that_cannot_sign_is_one_sentence(key: bytes, said: str) -> None:
    with pytest.raises(ApplianceError, match=said) as caught:
        tls.self_signed(key, ["a.test"], NOW)
    assert caught.value.hint


@pytest.mark.parametrize("text", [b"", b"garbage", b"\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_what_is_no_certificate_is_nobodys(text: bytes) -> None:
    assert tls.first(text) == b""
    assert not tls.is_own(text, b"")
    assert not tls.belongs(tls.new_key(), text)
    assert not tls.covers(text, ["a.test"])


def test_the_first_certificate_in_a_file_is_the_one_that_counts() -> None:
    key, other = tls.new_key(), tls.new_key()
    first, second = (tls.self_signed(each, ["a.test"], NOW) for each in (key, other))
    assert tls.first(first + second) == first
    assert tls.is_own(first + second, key)
    assert not tls.is_own(first + second, other)


def test_a_certificate_of_ours_is_known_by_itself_with_or_without_its_key() -> None:
    key = tls.new_key()
    made = tls.self_signed(key, ["a.test"], NOW)
    assert tls.is_own(made, key)
    assert tls.is_own(made, b"")
    assert not tls.is_own(made, b"another's")


@pytest.mark.parametrize(
    ("organisation", "issuer"), [("Theirs", None), ("cloudimg", "Theirs"), ("cloudimg", "cloudimg")]
)
def test_what_another_has_made_is_not_ours(organisation: str, issuer: str | None) -> None:
    """By another organisation, signed by a CA, or pretending: our name, another's signature."""
    key, ca = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    subject, signer = (
        x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, name)])
        for name in (organisation, issuer or organisation)
    )
    made = (
        x509.CertificateBuilder(signer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + dt.timedelta(days=9))
        .sign(ca if issuer else key, hashes.SHA256())
    )
    assert not tls.is_own(made.public_bytes(serialization.Encoding.PEM), private(key))


@pytest.mark.parametrize(
    ("days", "due"), [(0, False), (794, False), (796, True), (900, True), (-2, True)]
)
def test_it_is_due_in_its_last_30_days_after_them_and_before_its_first(
    tmp_path: Path, days: int, due: bool
) -> None:
    made = tls.self_signed(tls.new_key(), ["a.test"], NOW)
    then = NOW + dt.timedelta(days=days)
    (tmp_path / "crt").write_bytes(made)
    seen = glance.look(tmp_path / "crt")
    assert seen is not None
    assert seen.ours
    assert tls.is_due(made, then) is due
    assert glance.in_order(seen.starts, seen.ends, then) is not due


def test_it_is_for_its_names_and_its_subject_only() -> None:
    made = tls.self_signed(tls.new_key(), ["a.test", "b.test"], NOW)
    assert tls.is_for(made, ["a.test", "b.test"])
    for others in (["b.test", "a.test"], ["a.test"], ["a.test", "b.test", "c.test"]):
        assert not tls.is_for(made, others)
