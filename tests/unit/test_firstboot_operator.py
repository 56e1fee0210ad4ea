"""What an operator wrote by hand outlives first boot, and what is missing fits to it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import bcrypt
import pytest
from ca_support import DAY, NOW, Authority, issue
from cryptography.hazmat.primitives.asymmetric import rsa
from firstboot_support import FIRST, HOST, OTHER_HOST, SECOND, Disk, metadata

import firstboot.__main__
from appliance import identity, tls
from appliance.errors import ApplianceError
from appliance.tls import BACKDATED

BY_HAND = '# of last week\n"Bearer inf-by-hand" Team;\n'


def accepts(disk: Disk, password: str) -> bool:
    hashed = disk.paths.htpasswd.read_text().strip().partition(":")[2]
    return bcrypt.checkpw(password.encode(), hashed.encode())


def set_entry(disk: Disk, name: str, value: str) -> None:
    lines = disk.paths.credentials.read_text().splitlines()
    lines = [f"{name}={value}" if line.startswith(f"{name}=") else line for line in lines]
    disk.paths.credentials.write_text("".join(f"{line}\n" for line in lines))


def test_a_password_in_the_credentials_file_is_the_one_that_a_lost_login_gets(
    booted: Disk,
) -> None:
    key = booted.secrets()[0]
    set_entry(booted, "INFINITY_PASSWORD", "hunter2")
    booted.paths.htpasswd.unlink()
    booted.boot()
    booted.assert_whole()
    assert accepts(booted, "hunter2")
    assert booted.secrets()[0] == key


def test_a_lost_key_map_lets_the_key_of_the_credentials_file_in(booted: Disk) -> None:
    before, login = booted.secrets(), booted.paths.htpasswd.read_text()
    booted.paths.api_key_map.unlink()
    booted.boot()
    booted.assert_whole()
    assert booted.secrets() == before
    assert booted.paths.htpasswd.read_text() == login


def test_a_key_that_nginx_would_never_let_in_is_replaced_where_the_map_is_lost(
    booted: Disk,
) -> None:
    set_entry(booted, "INFINITY_API_KEY", 'Broken" 1; } #')
    booted.paths.api_key_map.unlink()
    booted.boot()
    booted.assert_whole()


def test_a_lost_map_with_a_deleted_credentials_file_gets_a_key_that_is_told(booted: Disk) -> None:
    login = booted.paths.htpasswd.read_text()
    booted.paths.credentials.unlink()
    booted.paths.api_key_map.unlink()
    booted.boot()
    told = identity.read_credentials(booted.paths)
    assert told["INFINITY_API_KEY"] == identity.first_key(booted.paths)
    assert "INFINITY_PASSWORD" not in told, "nobody knows the password, only its hash"
    assert booted.paths.htpasswd.read_text() == login


def test_a_lost_login_with_a_deleted_credentials_file_leaves_the_map_alone(booted: Disk) -> None:
    booted.paths.api_key_map.write_text(BY_HAND)
    booted.paths.credentials.unlink()
    booted.paths.htpasswd.unlink()
    booted.boot()
    booted.assert_whole()
    assert booted.paths.api_key_map.read_text() == BY_HAND
    assert booted.secrets()[0] == "inf-by-hand"


def test_a_map_that_came_with_user_data_is_the_one_that_counts(disk: Disk) -> None:
    disk.paths.api_key_map.write_text(BY_HAND)
    disk.boot()
    disk.assert_whole()
    assert disk.paths.api_key_map.read_text() == BY_HAND


def test_a_map_without_any_key_stays_without_one(booted: Disk) -> None:
    booted.paths.api_key_map.write_text("# nobody, for now\n")
    booted.paths.htpasswd.unlink()
    booted.boot(metadata(FIRST, OTHER_HOST))
    assert booted.paths.api_key_map.read_text() == "# nobody, for now\n"
    assert accepts(booted, identity.load(booted.paths).password)


def of_ones_own_ca(host: str) -> tuple[bytes, bytes]:
    """(chain, key): RSA, as a certificate authority delivers it."""
    authority = Authority.new()
    key = rsa.generate_private_key(65537, 2048)
    leaf = issue(host, by=authority.intermediate, key=key, hosts=[host])
    return authority.chain(leaf), leaf.key_pem


def test_a_certificate_of_the_operators_ca_stays_over_a_change_of_name(booted: Disk) -> None:
    chain, key = of_ones_own_ca(HOST)
    booted.paths.certificate.write_bytes(chain)
    booted.paths.certificate_key.write_bytes(key)
    for host in (HOST, OTHER_HOST):
        booted.boot(metadata(FIRST, host))
        assert f"server_name {host};" in booted.paths.nginx_site.read_text()
        assert booted.paths.certificate.read_bytes() == chain
        assert booted.paths.certificate_key.read_bytes() == key


def test_a_certificate_of_ours_is_known_without_any_record(booted: Disk) -> None:
    before = booted.secrets()
    booted.paths.settings.unlink()
    booted.boot(metadata(FIRST, OTHER_HOST))
    booted.assert_whole(OTHER_HOST)
    assert booted.secrets() == before


def test_a_certificate_of_the_operators_stays_without_any_record(booted: Disk) -> None:
    chain, key = of_ones_own_ca(HOST)
    booted.paths.certificate.write_bytes(chain)
    booted.paths.certificate_key.write_bytes(key)
    booted.paths.settings.unlink()
    booted.boot(metadata(FIRST, OTHER_HOST))
    assert booted.paths.certificate.read_bytes() == chain
    assert booted.paths.certificate_key.read_bytes() == key


@pytest.mark.parametrize("days", [-2000, -825, -800, 1, 2000], ids=lambda days: f"{days:+} days")
def test_a_certificate_of_ours_out_of_date_is_renewed_by_a_boot_with_the_same_key(
    booted: Disk, days: int
) -> None:
    before = booted.secrets()
    booted.paths.certificate.write_bytes(
        tls.self_signed(before[2], [HOST], NOW + days * DAY + BACKDATED)
    )
    booted.boot()
    booted.assert_whole()
    assert booted.secrets() == before
    assert not tls.is_due(booted.paths.certificate.read_bytes(), NOW)


def test_a_renewal_that_cannot_be_written_does_not_cost_the_boot(
    booted: Disk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tls.self_signed(booted.secrets()[2], [HOST], NOW - 2000 * DAY)
    booted.paths.certificate.write_bytes(old)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fchmod", fail)
        booted.boot()
    assert booted.paths.certificate.read_bytes() == old
    assert "not renewed" in capsys.readouterr().err
    booted.boot()
    booted.assert_whole()


def test_a_clock_that_was_years_off_for_a_boot_leaves_the_certificate_that_clients_have(
    booted: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = booted.paths.certificate.read_bytes()
    for then in (NOW - 7300 * DAY, NOW + 7300 * DAY):
        with monkeypatch.context() as patch:
            patch.setattr(firstboot.__main__, "now", partial(then.astimezone))
            booted.boot()
            assert not tls.is_due(booted.paths.certificate.read_bytes(), then)
        booted.boot()
        assert booted.paths.certificate.read_bytes() == known
        booted.assert_whole()


def test_links_to_a_certificate_elsewhere_stay_links(booted: Disk, tmp_path: Path) -> None:
    chain, key = of_ones_own_ca(HOST)
    for path, data in ((booted.paths.certificate, chain), (booted.paths.certificate_key, key)):
        (tmp_path / path.name).write_bytes(data)
        path.unlink()
        path.symlink_to(tmp_path / path.name)
    booted.boot(metadata(FIRST, OTHER_HOST))
    (tmp_path / "infinity.crt").unlink()  # such as a folder that is not mounted yet
    with pytest.raises(ApplianceError, match="nginx refuses its configuration"):
        booted.boot(metadata(FIRST, HOST))
    (tmp_path / "infinity.crt").write_bytes(chain)
    booted.boot(metadata(FIRST, HOST))
    assert booted.paths.certificate.is_symlink()
    assert booted.paths.certificate_key.is_symlink()
    assert (tmp_path / "infinity.key").read_bytes() == key


def test_a_copy_of_the_disk_loses_the_link_and_not_what_it_leads_to(
    booted: Disk, tmp_path: Path
) -> None:
    chain, key = of_ones_own_ca(HOST)
    for path, data in ((booted.paths.certificate, chain), (booted.paths.certificate_key, key)):
        (tmp_path / path.name).write_bytes(data)
        path.unlink()
        path.symlink_to(tmp_path / path.name)
    booted.boot(metadata(SECOND))
    booted.assert_whole()
    assert (tmp_path / "infinity.crt").read_bytes() == chain


def test_a_copy_of_the_disk_loses_what_was_ordered_for_the_original(booted: Disk) -> None:
    folder = booted.paths.letsencrypt
    for name in ("accounts/ca/key.json", "archive/infinity/privkey1.pem", "renewal/infinity.conf",
                 "renewal-hooks/deploy/infinity"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("of the original")
    booted.boot(metadata(SECOND))
    assert [path.name for path in folder.iterdir()] == ["renewal-hooks"]
    assert (folder / "renewal-hooks/deploy/infinity").exists()


def test_a_link_in_the_way_of_a_secret_is_replaced_and_not_followed(
    disk: Disk, tmp_path: Path
) -> None:
    (tmp_path / "theirs").write_text("theirs")
    disk.paths.credentials.parent.mkdir()
    for path in (disk.paths.credentials, disk.paths.nginx_site):
        path.symlink_to(tmp_path / "theirs")
    disk.boot()
    disk.assert_whole()
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not disk.paths.credentials.is_symlink()


def test_the_longest_name_there_can_be_is_served(disk: Disk) -> None:
    longest = ".".join(["a" * 63] * 3 + ["b" * 61])
    assert len(longest) == 253
    disk.paths.hostname.write_text(f"\N{BYTE ORDER MARK}# ours\r\n{longest.upper()}\r\n", "utf-8")
    disk.boot()
    disk.assert_whole(longest)
    assert tls.covers(disk.paths.certificate.read_bytes(), [longest])


@pytest.mark.parametrize("garbage", [b"\xff\xfeh\x00", b"a.test\x00", b"a.test\nb.test\n", None])
def test_a_hostname_file_that_is_none_is_one_sentence(booted: Disk, garbage: bytes | None) -> None:
    if garbage is None:
        booted.paths.hostname.mkdir()
    else:
        booted.paths.hostname.write_bytes(garbage)
    site = booted.paths.nginx_site.read_text()
    with pytest.raises(ApplianceError, match="infinity-hostname") as caught:
        booted.boot()
    assert caught.value.hint
    assert booted.paths.nginx_site.read_text() == site


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("MODEL=owner/new@main;owner/other\nINFINITY_SERVED_MODEL_NAME=\n", "owner/new"),
        ("MODEL=owner/old\n MODEL = 'owner/new' \n#MODEL=owner/none\n", "owner/new"),
        ("MODEL=owner/new\nINFINITY_SERVED_MODEL_NAME=short;second\n", "short"),
    ],
)
def test_the_credentials_file_names_the_model_as_it_is_served(
    booted: Disk, lines: str, named: str
) -> None:
    before = booted.secrets()
    booted.paths.server_env.write_text(lines)
    booted.boot()
    assert identity.read_credentials(booted.paths)["INFINITY_MODEL"] == named
    assert booted.secrets() == before
