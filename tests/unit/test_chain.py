"""An operator's certificate and key: what clients would refuse is refused first."""

from __future__ import annotations

import datetime as dt

import pytest
from ca_support import DAY, NOW, Authority, ec_key, issue, key_pem
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from appliance import chain, tls
from appliance.errors import ApplianceError

HOST, ALIAS = "a.test", "203.0.113.7"
AUTHORITY = Authority.new()
LEAF = issue(HOST, by=AUTHORITY.intermediate, hosts=[HOST, ALIAS])
ROOT, MIDDLE = AUTHORITY.root, AUTHORITY.intermediate


def checked(
    pem: bytes, key: bytes = LEAF.key_pem, hosts: tuple[str, ...] = (HOST, ALIAS)
) -> chain.Pair:
    return chain.checked(pem, key, hosts, dt.datetime.now(dt.UTC))


def refused(pem: bytes, key: bytes = LEAF.key_pem, hosts: tuple[str, ...] = (HOST,)) -> str:
    with pytest.raises(ApplianceError) as caught:
        checked(pem, key, hosts)
    assert caught.value.hint
    assert "PRIVATE" not in str(caught.value)
    return caught.value.message


def test_leaf_and_intermediate_are_taken_as_they_are() -> None:
    pair = checked(LEAF.pem + MIDDLE.pem)
    assert pair.chain == LEAF.pem + MIDDLE.pem
    assert tls.belongs(pair.key, LEAF.pem)


def test_a_root_at_the_end_is_left_out() -> None:
    assert checked(LEAF.pem + MIDDLE.pem + ROOT.pem).chain == LEAF.pem + MIDDLE.pem


def test_what_else_is_in_the_files_is_left_out() -> None:
    """A private key in the certificate's file would be for everybody to read."""
    pair = checked(b"Bag Attributes\n" + LEAF.key_pem + LEAF.pem + b"\n# and\n" + MIDDLE.pem)
    assert pair.chain == LEAF.pem + MIDDLE.pem


@pytest.mark.parametrize("ca", [False, True])
def test_a_self_signed_one_of_the_operators_is_taken(ca: bool) -> None:
    own = issue(HOST, hosts=[HOST], ca=ca)
    assert checked(own.pem, own.key_pem, (HOST,)).chain == own.pem


@pytest.mark.parametrize(
    ("names", "hosts", "good"),
    [
        (["*.a.test"], ("b.a.test",), True),
        (["*.a.test"], ("a.test",), False),
        (["*.a.test"], ("c.b.a.test",), False),
        (["*.A.test"], ("b.a.test",), True),
        (["a.test"], ("a.test", "b.test"), False),
        (["*.0.113.7"], ("203.0.113.7",), False),
        (["2001:db8::7"], ("[2001:db8::7]",), True),
    ],
)
def test_every_name_must_be_covered(names: list[str], hosts: tuple[str, ...], good: bool) -> None:
    own = issue("a.test", hosts=names)
    if good:
        assert checked(own.pem, own.key_pem, hosts)
    else:
        assert f"does not cover {hosts[-1]}" in refused(own.pem, own.key_pem, hosts)


def test_a_common_name_covers_nothing() -> None:
    own = issue(HOST)
    assert "does not cover" in refused(own.pem, own.key_pem)


@pytest.mark.parametrize(
    ("pem", "said"),
    [
        (MIDDLE.pem + LEAF.pem, "not the first in the file"),
        (LEAF.pem + ROOT.pem + MIDDLE.pem, "not in order"),
        (LEAF.pem + LEAF.pem, "not in order"),
        (LEAF.pem + issue("Another", ca=True).pem, "not in order"),
        (MIDDLE.pem, "do not belong together"),
        (b"", "no readable certificate"),
        (LEAF.key_pem, "no readable certificate"),
        (LEAF.pem[:200], "no readable certificate"),
        (LEAF.certificate.public_bytes(serialization.Encoding.DER), "no readable certificate"),
    ],
    ids=["upside down", "mixed up", "twice", "another's CA", "not the key's", "empty", "a key",
         "cut off", "DER"],
)  # fmt: skip
def test_a_chain_in_disorder_is_named(pem: bytes, said: str) -> None:
    assert said in refused(pem)


def test_who_is_no_ca_issues_nothing() -> None:
    false = issue("No CA", by=ROOT)
    leaf = issue(HOST, by=false, hosts=[HOST])
    assert "not issued by" in refused(leaf.pem + false.pem, leaf.key_pem)


@pytest.mark.parametrize(
    ("starts", "ends", "said"),
    [
        (NOW - 9 * DAY, NOW - DAY, "has expired on"),
        (NOW + DAY, NOW + 9 * DAY, "begins on"),
    ],
)
def test_dates_are_checked(starts: dt.datetime, ends: dt.datetime, said: str) -> None:
    leaf = issue(HOST, by=MIDDLE, hosts=[HOST], starts=starts, ends=ends)
    assert said in refused(leaf.pem + MIDDLE.pem, leaf.key_pem)


def test_an_intermediate_out_of_date_is_named() -> None:
    old = Authority.new(ends=NOW - dt.timedelta(hours=1))
    leaf = issue(HOST, by=old.intermediate, hosts=[HOST])
    assert "An intermediate' has expired" in refused(old.chain(leaf), leaf.key_pem)


def test_a_client_certificate_is_refused() -> None:
    leaf = issue(HOST, hosts=[HOST], usage=ExtendedKeyUsageOID.CLIENT_AUTH)
    assert "not for a server" in refused(leaf.pem, leaf.key_pem)


SHORT = rsa.generate_private_key(65537, 1024)  # noqa: S505 - that is what is tried


@pytest.mark.parametrize("key", [SHORT, ec_key(ec.SECP521R1())])
def test_a_key_that_nginx_cannot_use_is_refused(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
) -> None:
    leaf = issue(HOST, key=key, hosts=[HOST])
    assert "kind or length" in refused(leaf.pem, leaf.key_pem)


def test_an_edwards_key_is_refused() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    assert "kind or length" in refused(LEAF.pem, pem)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (key_pem(ec_key(), b"secret"), "is encrypted"),
        (key_pem(ec_key()), "do not belong together"),
        (b"", "no readable private key"),
        (LEAF.pem, "no readable private key"),
        (LEAF.key_pem[:80], "no readable private key"),
    ],
    ids=["encrypted", "another's", "empty", "a certificate", "cut off"],
)
def test_a_key_that_does_not_fit_is_named(key: bytes, said: str) -> None:
    assert said in refused(LEAF.pem + MIDDLE.pem, key)


def test_a_key_after_its_curves_parameters_is_read() -> None:
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    assert checked(LEAF.pem + MIDDLE.pem, parameters + LEAF.key_pem)
