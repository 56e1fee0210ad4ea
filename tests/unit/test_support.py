"""A support archive holds no secret in any form, and is written over nothing that is there."""

from __future__ import annotations

import base64
import gzip
import json
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from firstboot_support import Disk

from appliance.errors import ApplianceError
from appliance.support import bundle, secrets
from appliance.support.redact import MARK, Redactor

KEY = "inf-0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071"
PASSWORD = "pa55-Word_of+16/signs=ß"
SECRETS = [KEY, PASSWORD]


def written_as(secret: str) -> Iterator[str]:
    raw = secret.encode()
    yield secret
    yield secret.upper()
    yield quote(secret, safe="")
    yield "".join(f"%{byte:02X}" for byte in raw)
    yield raw.hex(":")
    yield json.dumps(secret)
    yield base64.b64encode(raw).decode()
    yield base64.b64encode(b"admin:" + raw).decode()
    yield base64.b64encode(b"x" + raw + b" and more").decode()
    yield base64.urlsafe_b64encode(b"admin:x" + raw + b"??").decode()
    yield (
        base64.b64encode(b"admin:" + raw).decode()[:17]
        + "\n "
        + (base64.b64encode(b"admin:" + raw).decode()[17:])
    )
    yield "\n".join(secret[at : at + 4] for at in range(0, len(secret), 4))
    yield " ".join(secret)
    yield f"{secret[:11]}\nNov 30 08:00:00 host nginx[1]: {secret[11:]}"
    yield "\\" + "\\".join(secret)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_known_secret_is_found_however_it_is_written(secret: str) -> None:
    redactor = Redactor([secret])
    for form in written_as(secret):
        told = redactor.text(f"before ({form}) after")
        assert told.startswith("before (")
        assert told.endswith(") after")
        assert MARK in told, form
        plain = "".join(character for character in told.lower() if character.isalnum())
        for known in (secret, base64.b64encode(secret.encode()).decode()):
            flat = "".join(character for character in known.lower() if character.isalnum())
            pieces = [flat[at : at + 8] for at in range(len(flat) - 7)]
            assert not [piece for piece in pieces if piece in plain], form


def test_a_short_password_is_found_as_it_is() -> None:
    assert Redactor(["!s3-"]).text("login with !s3- now") == f"login with {MARK} now"


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("Authorization: Bearer abc.def", "abc.def"),
        ('"authorization": "Basic YWRtaW46eA=="', "YWRtaW46eA"),
        ("curl -H 'Authorization: token-of-mine'", "token-of-mine"),
        ("sent Bearer abcdef", "abcdef"),
        ("an old key inf-00ff00ff00ff00ff", "00ff00ff"),
        ("admin:$2y$05$abcdefghijklmnopqrstuv", "abcdefgh"),
        ("admin:$apr1$salt$hashhash", "hashhash"),
        ("HF_TOKEN=hunter22", "hunter22"),
        ("db_password: 'hunter22'", "hunter22"),
        ("https://user:hunter22@example.com/", "hunter22"),
        ("hf_abcdefghijklmnopqrstuv", "abcdefgh"),
        ("AKIAABCDEFGHIJKLMNOP", "ABCDEFGH"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "AAAA"),
        ("-----BEGIN RSA PRIVATE KEY-----\nAAAA\nBBBB", "BBBB"),
        ("Cookie: session=abcdef; b=c", "abcdef"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, gone: str) -> None:
    told = Redactor([]).text(text)
    assert gone not in told
    assert MARK in told


@pytest.mark.parametrize(
    "text",
    [
        "infinity.service: active since 08:00, 3 tokens a second",
        '{"credential":"key","status":401}',
        "INFINITY_ANONYMOUS_USAGE_STATS=0",
        "tokenizers==0.22.1",
        "auth_basic_user_file .infinity.htpasswd;",
        "MODEL=BAAI/bge-small-en-v1.5@5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor([KEY, PASSWORD]).text(text) == text


ODD_MAP = """\
# "Bearer inf-commented0000" 1;
'Bearer inf-single000000' 1;
"bearer\\ inf-escaped00000" name; Bearer\\ inf-bare00000000 1;
"~^Bearer (inf-pattern0000|inf-other000000)$" many;
"Bearer
inf-newline00000" 1;
"Bearer inf-off000000000" 0;
"Bearer inf-unterminated00000000
"""
ODD_KEYS = [
    "inf-commented0000",
    "inf-single000000",
    "inf-escaped00000",
    "inf-bare00000000",
    "inf-pattern0000",
    "inf-other000000",
    "inf-newline00000",
    "inf-off000000000",
    "inf-unterminated00000000",
]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    made = Disk.fresh(tmp_path / "root")
    made.boot()
    return made


def test_every_key_of_a_map_written_by_hand_is_known(disk: Disk) -> None:
    disk.paths.api_key_map.write_text(ODD_MAP)
    told = Redactor(secrets.gather(disk.paths)).text(ODD_MAP)
    assert [key for key in ODD_KEYS if key[4:] in told] == []


def test_secrets_of_files_of_all_kinds_are_known(disk: Disk) -> None:
    root = disk.paths.root
    (root / "etc/infinity/infinity.env").write_text("HF_TOKEN='tok-of-env-1'\nMODEL=a/b\n")
    (root / "etc/letsencrypt/live/x").mkdir(parents=True)
    pem = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----\n"
    (root / "etc/letsencrypt/live/x/privkey.pem").write_text(pem)
    (root / "var/lib/cloud/instance").mkdir(parents=True)
    content = base64.b64encode(b"token is deep-secret-0123456789abc").decode()
    data = f"#cloud-config\nruncmd:\n - echo the-whole-line is told\n - content: {content}\n"
    (root / "var/lib/cloud/instance/user-data.txt").write_bytes(gzip.compress(data.encode()))
    found = secrets.gather(disk.paths)
    assert {"tok-of-env-1", "\nMIGHAgEAMBMGByqGSM49\n", "deep-secret-0123456789abc"} <= found
    assert "- echo the-whole-line is told" in secrets.user_data(disk.paths)
    key, password, _ = disk.secrets()
    assert {key, password} <= found


def test_pipes_links_in_a_circle_and_folders_do_not_hold_it_up(disk: Disk) -> None:
    disk.paths.api_key_map.unlink()
    os.mkfifo(disk.paths.api_key_map)
    disk.paths.htpasswd.unlink()
    disk.paths.htpasswd.symlink_to(disk.paths.htpasswd)
    disk.paths.server_env.unlink()
    disk.paths.server_env.mkdir()
    assert disk.secrets()[0] in secrets.gather(disk.paths)


def packed(target: Path) -> dict[str, bytes]:
    with tarfile.open(target) as archive:
        members = {member.name: archive.extractfile(member) for member in archive}
        return {name: file.read() for name, file in members.items() if file}


def test_the_archive_is_roots_alone_whole_and_without_secrets(disk: Disk, tmp_path: Path) -> None:
    key, password, _ = disk.secrets()
    log = disk.paths.root / "var/log/nginx/access.log"
    log.write_text(f"GET /?key={key}\n{base64.b64encode(f'admin:{password}'.encode()).decode()}\n")
    target = tmp_path / "support.tar.gz"
    files, replaced = bundle.write(target, {"status.json": "{}"}, disk.paths)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    found = packed(target)
    manifest = json.loads(found.pop("infinity-support/manifest.json"))
    assert len(found) == files == len(manifest["files"])
    assert manifest["secrets_replaced"] == replaced > 1
    for name, raw in found.items():
        assert manifest["files"][name.removeprefix("infinity-support/")]["bytes"] == len(raw)
    everything = b"\n".join(found.values()).decode()
    assert "GET /?key=[redacted]" in everything
    for secret in (key, password):
        assert not [form for form in written_as(secret) if form in everything]


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder"])
def test_what_is_in_the_way_is_left_alone(disk: Disk, tmp_path: Path, kind: str) -> None:
    target, other = tmp_path / "support.tar.gz", tmp_path / "theirs"
    other.write_text("theirs")
    if kind == "file":
        target.write_text("theirs")
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to(other if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(ApplianceError, match="exists already"):
        bundle.write(target, {}, disk.paths)
    assert other.read_text() == "theirs"
    assert not (tmp_path / "nowhere").exists()


def test_a_link_among_the_sources_is_told_and_not_followed(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("private text")
    disk.paths.hostname.symlink_to(tmp_path / "private")
    target = tmp_path / "support.tar.gz"
    bundle.write(target, {}, disk.paths)
    found = packed(target)["infinity-support/files/etc/cloudimg/infinity-hostname"].decode()
    assert "symbolic link" in found
    assert "private text" not in found


def test_a_full_disk_leaves_no_half_archive(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ApplianceError, match="No space left"):
        bundle.write(tmp_path / "support.tar.gz", {}, disk.paths)
    assert not (tmp_path / "support.tar.gz").exists()
