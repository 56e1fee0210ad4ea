"""The secrets: how they are made, what of the credentials file counts, what the map lets in."""

from __future__ import annotations

import re
from pathlib import Path

import bcrypt
import pytest

from appliance import identity
from appliance.errors import ApplianceError
from appliance.identity import Identity
from appliance.paths import Paths

KEY = "inf-" + "0a" * 24


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path)
    paths.nginx.mkdir(parents=True)
    paths.credentials.parent.mkdir()
    return paths


def test_secrets_have_192_random_bits_and_their_documented_shape() -> None:
    keys = {identity.new_api_key() for _ in range(50)}
    passwords = {identity.new_password() for _ in range(50)}
    assert len(keys) == len(passwords) == 50
    assert all(re.fullmatch(r"inf-[0-9a-f]{48}", key) for key in keys)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", password) for password in passwords)


def test_the_login_is_a_bcrypt_hash_of_the_password() -> None:
    name, _, hashed = identity.htpasswd_line(Identity(KEY, "a password")).strip().partition(":")
    assert name == "admin"
    assert hashed.startswith("$2b$05$")
    assert bcrypt.checkpw(b"a password", hashed.encode())


def test_a_representation_shows_no_secret() -> None:
    shown = repr(Identity(KEY, "a password"))
    assert KEY not in shown
    assert "a password" not in shown


def load(paths: Paths, *lines: str) -> Identity:
    paths.credentials.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return identity.load(paths)


@pytest.mark.parametrize("password", ["x", "with = and $ and blank", "pässword", "x" * 72])
def test_a_password_of_the_operators_counts(paths: Paths, password: str) -> None:
    assert load(paths, f"INFINITY_PASSWORD={password}").password == password


@pytest.mark.parametrize("password", ["", "x" * 73, "ä" * 37, "a\tb", "a\x7fb"])
def test_a_password_that_cannot_be_hashed_or_typed_does_not(paths: Paths, password: str) -> None:
    assert load(paths, f"INFINITY_PASSWORD={password}").password == ""


@pytest.mark.parametrize("key", [KEY, "by-hand", "abc.~+/=="])
def test_a_key_of_the_operators_counts(paths: Paths, key: str) -> None:
    assert load(paths, f"INFINITY_API_KEY={key}").api_key == key


@pytest.mark.parametrize("key", ["", "With-Capitals", "a b", 'a"b', "a;b", "a\\b", "a{b", "ä"])
def test_a_key_that_would_break_the_map_or_never_be_let_in_does_not(paths: Paths, key: str) -> None:
    assert load(paths, f"INFINITY_API_KEY={key}").api_key == ""


def test_without_a_file_nothing_is_known(paths: Paths) -> None:
    assert identity.load(paths) == Identity("", "")


def test_a_file_that_is_no_text_is_one_sentence(paths: Paths) -> None:
    paths.credentials.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ApplianceError, match="is no text") as caught:
        identity.load(paths)
    assert caught.value.hint


def test_a_file_that_cannot_be_read_is_one_sentence(paths: Paths) -> None:
    paths.credentials.mkdir()
    with pytest.raises(ApplianceError, match="cannot be read") as caught:
        identity.load(paths)
    assert caught.value.hint


@pytest.mark.parametrize(
    "line",
    [
        f'"Bearer {KEY}" 1;',
        f"  'Bearer {KEY}'   1 ;  # ours",
        f'"bearer {KEY}" Search-Team;',
        f'"Bearer {KEY}" "Search Team";',
        f'"Bearer {KEY}" 10;',
        f'# comment\n\n"Bearer {KEY}x" 0;\n"Bearer {KEY}" 1;',
        f'"Bearer {KEY.upper()}" 1;\n"Bearer {KEY}" 1;',
    ],
)
def test_a_key_that_the_map_lets_in_is_found(paths: Paths, line: str) -> None:
    paths.api_key_map.write_text(line + "\n")
    assert identity.first_key(paths) == KEY


@pytest.mark.parametrize(
    "line",
    [
        "",
        f'#"Bearer {KEY}" 1;',
        f'"Bearer {KEY}" 0;',
        f'"Bearer {KEY}" "0";',
        f'"Bearer {KEY}" "";',
        f"\"Bearer {KEY}\" '';",
        f'"Bearer {KEY}" 1',
        '"~^Bearer .*" 1;',
        f'"Basic {KEY}" 1;',
    ],
)
def test_a_line_that_lets_nobody_in_is_no_key(paths: Paths, line: str) -> None:
    paths.api_key_map.write_text(line + "\n")
    assert identity.first_key(paths) is None


def test_odd_bytes_in_the_map_do_not_hide_the_key(paths: Paths) -> None:
    paths.api_key_map.write_bytes(b"# caf\xe9\n" + f'"Bearer {KEY}" 1;\n'.encode())
    assert identity.first_key(paths) == KEY
