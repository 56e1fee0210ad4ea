"""The self-signed certificate, judged by a strict client that has it as its only trust anchor."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509

from appliance import tls

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
