"""First boot on a disk below a folder, with the real nginx testing what it writes."""

from __future__ import annotations

import errno
import itertools
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest
from ca_support import issue
from cryptography import x509
from cryptography.x509.oid import NameOID
from firstboot_support import FIRST, HOST, OTHER_HOST, REPO, SECOND, Disk, Metadata, metadata

from appliance import identity
from appliance.errors import ApplianceError
from appliance.imds import MetadataError

SILENT = Metadata(failure=MetadataError("The metadata service is silent.", "Switch it on."))


def test_first_boot_makes_the_whole_identity(booted: Disk) -> None:
    booted.assert_whole()
    lines = booted.paths.credentials.read_text().splitlines()
    assert [line.partition("=")[0] for line in lines] == [
        "INFINITY_HOST",
        "INFINITY_URL",
        "INFINITY_MODEL",
        "INFINITY_API_KEY",
        "INFINITY_USERNAME",
        "INFINITY_PASSWORD",
    ]
    assert "INFINITY_MODEL=owner/model" in lines


def test_secrets_are_readable_by_their_owner_alone(booted: Disk) -> None:
    paths = booted.paths
    for path in (paths.credentials, paths.api_key_map, paths.certificate_key, paths.settings):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(paths.htpasswd.stat().st_mode) == 0o640
    assert stat.S_IMODE(paths.certificate.stat().st_mode) == 0o644


def test_a_boot_with_nothing_to_do_changes_nothing(booted: Disk) -> None:
    def state() -> dict[Path, tuple[int, bytes]]:
        files = [p for p in booted.paths.root.rglob("*") if p.is_file() and "log" not in p.parts]
        return {p: (p.stat().st_ino, p.read_bytes()) for p in files if p.name != "nginx.pid"}

    before = state()
    booted.boot()
    assert state() == before


def test_another_instance_id_gets_another_identity(booted: Disk) -> None:
    old, machine_id = booted.secrets(), booted.paths.machine_id.read_text()
    booted.boot(metadata(SECOND))
    booted.assert_whole()
    assert all(new != before for new, before in zip(booted.secrets(), old, strict=True))
    assert booted.paths.machine_id.read_text() != machine_id


def test_a_new_public_name_gets_a_new_certificate_and_nothing_else(booted: Disk) -> None:
    old, certificate = booted.secrets(), booted.paths.certificate.read_bytes()
    booted.boot(metadata(FIRST, OTHER_HOST))
    booted.assert_whole(OTHER_HOST)
    assert booted.secrets() == old
    assert booted.paths.certificate.read_bytes() != certificate


def test_the_operators_name_wins_and_stays(booted: Disk) -> None:
    booted.paths.hostname.write_text("Embeddings.Example.com\n")
    booted.boot()
    booted.assert_whole("embeddings.example.com")
    booted.boot(metadata(FIRST, OTHER_HOST))
    booted.assert_whole("embeddings.example.com")


@pytest.mark.parametrize("name", ["a b", "*.example.com", "a;b", "a\nb", "a_b", "1.2.3", "-a.com"])
def test_a_name_that_is_none_is_refused(disk: Disk, name: str) -> None:
    disk.paths.hostname.write_text(name)
    with pytest.raises(ApplianceError, match="infinity-hostname"):
        disk.boot()
    assert not disk.paths.nginx_site.exists()


def test_without_metadata_the_identity_stays(booted: Disk) -> None:
    old = booted.secrets()
    booted.boot(SILENT)
    booted.assert_whole()
    assert booted.secrets() == old


def test_without_metadata_and_name_there_is_one_sentence_and_no_port(disk: Disk) -> None:
    with pytest.raises(ApplianceError, match="There is no host name to serve") as caught:
        disk.boot(SILENT)
    assert caught.value.hint
    assert not disk.paths.nginx_site.exists()
    disk.boot()
    disk.assert_whole()


def test_an_id_that_comes_later_is_adopted(disk: Disk) -> None:
    disk.paths.hostname.write_text(HOST)
    disk.boot(SILENT)
    old = disk.secrets()
    disk.boot(metadata(FIRST))
    assert disk.secrets() == old
    disk.boot(metadata(SECOND))
    assert disk.secrets() != old


def test_the_id_is_read_from_the_board_where_metadata_is_silent(booted: Disk) -> None:
    old = booted.secrets()
    booted.paths.asset_tag.parent.mkdir(parents=True)
    booted.paths.asset_tag.write_text(SECOND + "\n")
    booted.paths.hostname.write_text(HOST)
    booted.boot(SILENT)
    assert booted.secrets() != old


def test_the_operators_certificate_is_left_alone(booted: Disk) -> None:
    theirs = issue(HOST, hosts=[HOST])
    booted.paths.certificate.write_bytes(theirs.pem)
    booted.paths.certificate_key.write_bytes(theirs.key_pem)
    booted.boot(metadata(FIRST, OTHER_HOST))
    assert booted.paths.certificate.read_bytes() == theirs.pem
    assert booted.paths.certificate_key.read_bytes() == theirs.key_pem
    assert f"server_name {OTHER_HOST};" in booted.paths.nginx_site.read_text()


def test_our_certificate_stays_ours_however_often_a_boot_fails(booted: Disk) -> None:
    broken = booted.paths.nginx / "infinity/gate.conf"
    text = broken.read_text()
    broken.write_text("no_such_directive;\n")
    for number in range(6):
        with pytest.raises(ApplianceError, match="no_such_directive"):
            booted.boot(metadata(FIRST, f"name-{number}.compute.test"))
    broken.write_text(text)
    booted.boot(metadata(FIRST, OTHER_HOST))
    booted.assert_whole(OTHER_HOST)


def test_a_stamp_of_another_release_is_this_instances_all_the_same(booted: Disk) -> None:
    old = booted.secrets()
    stamp = json.loads(booted.paths.stamp.read_text())
    booted.paths.stamp.write_text(json.dumps(stamp | {"from_the_future": 1}))
    booted.boot()
    assert booted.secrets() == old


def test_a_certificate_that_nginx_refuses_is_one_sentence(booted: Disk) -> None:
    booted.paths.certificate.write_text("no certificate\n")
    with pytest.raises(ApplianceError, match="nginx refuses its configuration") as caught:
        booted.boot()
    assert "infinity.crt" in caught.value.message


def test_credentials_that_the_operator_changed_by_hand_stay(booted: Disk) -> None:
    booted.paths.api_key_map.write_text('"Bearer inf-by-hand" 1;\n')
    hashed = bcrypt.hashpw(b"by hand", bcrypt.gensalt(5)).decode()
    booted.paths.htpasswd.write_text(f"admin:{hashed}\n")
    booted.paths.credentials.unlink()
    booted.boot(metadata(FIRST, OTHER_HOST))
    assert not booted.paths.credentials.exists()
    assert booted.paths.api_key_map.read_text() == '"Bearer inf-by-hand" 1;\n'
    assert booted.paths.htpasswd.read_text() == f"admin:{hashed}\n"


def test_the_credentials_file_follows_the_model_and_keeps_what_was_added(booted: Disk) -> None:
    with booted.paths.credentials.open("a") as file:
        file.write("# ours\n")
    booted.paths.server_env.write_text("MODEL=owner/another\n")
    booted.boot()
    text = booted.paths.credentials.read_text()
    assert "INFINITY_MODEL=owner/another\n" in text
    assert text.endswith("# ours\n")


def test_a_template_that_does_not_render_leaves_no_site(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "infinity-site.conf.j2").write_text("{{ no_such_value }}")
    monkeypatch.setattr(type(disk.paths), "templates", tmp_path)
    with pytest.raises(ApplianceError, match="does not render"):
        disk.boot()
    assert not disk.paths.nginx_site.exists()
    monkeypatch.undo()
    disk.boot()
    disk.assert_whole()


def full_at(number: int, real: Callable[[int], None]) -> Callable[[int], None]:
    """An fsync that fails once, at the given call."""
    calls = itertools.count()

    def fsync(descriptor: int) -> None:
        if next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    return fsync


def test_a_full_disk_at_any_write_is_one_sentence_and_mended_by_the_next_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 0
    for number in range(30):
        disk = Disk.fresh(tmp_path / str(number))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full_at(number, os.fsync))
            try:
                disk.boot()
            except (ApplianceError, OSError) as error:
                assert "No space left" in str(error)  # noqa: PT017 - some numbers do not fail
                failures += 1
        disk.boot()
        disk.assert_whole()
    assert failures > len(("credentials", "map", "login", "key", "certificate", "site", "stamp"))


def test_the_command_says_what_is_wrong_in_one_sentence(disk: Disk) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "firstboot", "--root", disk.paths.root),
            *("--nginx", disk.gate.program, "--imds-url", "http://127.0.0.1:9"),
            *("--patience", "0.2"),
        ],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("infinity-firstboot: There is no host name to serve.")
    assert len(done.stderr.splitlines()) == 1
    assert "Hint: " in done.stderr


def test_the_subject_is_the_host_and_the_organisation(booted: Disk) -> None:
    subject = booted.certificate().subject
    assert [(a.oid, a.value) for a in subject] == [
        (NameOID.COMMON_NAME, HOST),
        (NameOID.ORGANIZATION_NAME, "cloudimg"),
    ]
    alternative = booted.certificate().extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert alternative.value.get_values_for_type(x509.DNSName) == [HOST]


def test_secrets_never_show_in_a_representation(booted: Disk) -> None:
    known = identity.load(booted.paths)
    assert known.api_key
    assert known.password
    assert known.api_key not in repr(known)
    assert known.password not in repr(known)
