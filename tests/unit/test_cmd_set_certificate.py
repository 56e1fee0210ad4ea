"""`infinity-set-certificate` on a disk: a pair that fits is shown, any other changes nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ca_support import Authority, Entity, issue
from command_support import Ran, break_nginx, ran, state
from firstboot_support import FIRST, HOST, OTHER_HOST, Disk, metadata

from appliance import tls

AUTHORITY = Authority.new()
LEAF = issue(HOST, by=AUTHORITY.intermediate, hosts=[HOST])


@pytest.fixture
def brought(tmp_path: Path) -> tuple[Path, Path]:
    """The two files as an operator has them."""
    return write(tmp_path, AUTHORITY.chain(LEAF), LEAF)


def write(folder: Path, chain: bytes, leaf: Entity) -> tuple[Path, Path]:
    certificate, key = folder / "fullchain.pem", folder / "privkey.pem"
    certificate.write_bytes(chain)
    key.write_bytes(leaf.key_pem)
    key.chmod(0o600)
    return certificate, key


def take(disk: Disk, brought: tuple[Path, Path]) -> Ran:
    return ran(disk, "set_certificate", "--cert", str(brought[0]), "--key", str(brought[1]))


def test_the_pair_is_taken_and_left_alone_by_boots_and_renewals(
    booted: Disk, brought: tuple[Path, Path]
) -> None:
    done = take(booted, brought)
    assert done.status == 0, done.error
    assert "yours" in done.output
    key, certificate = booted.paths.certificate_key, booted.paths.certificate
    assert certificate.read_bytes() == AUTHORITY.chain(LEAF)
    assert tls.belongs(key.read_bytes(), LEAF.pem)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    booted.boot(metadata(FIRST, OTHER_HOST))
    assert ran(booted, "renew").status == 0
    assert certificate.read_bytes() == AUTHORITY.chain(LEAF)
    assert key.read_bytes() == before


def test_our_own_comes_back_with_a_key_of_our_own(booted: Disk, brought: tuple[Path, Path]) -> None:
    take(booted, brought)
    theirs = booted.paths.certificate_key.read_bytes()
    done = ran(booted, "set_certificate", "--self-signed")
    assert done.status == 0, done.error
    booted.assert_whole()
    assert booted.paths.certificate_key.read_bytes() != theirs
    before = state(booted)
    assert ran(booted, "set_certificate", "--self-signed").status == 0
    assert state(booted) == before, "what is ours already stays"


def test_links_to_a_pair_elsewhere_are_replaced_and_not_followed(
    booted: Disk, brought: tuple[Path, Path]
) -> None:
    for path, theirs in zip(
        (booted.paths.certificate, booted.paths.certificate_key), brought, strict=True
    ):
        path.unlink()
        path.symlink_to(theirs)
    assert ran(booted, "set_certificate", "--self-signed").status == 0
    booted.assert_whole()
    assert brought[0].read_bytes() == AUTHORITY.chain(LEAF)
    assert brought[1].read_bytes() == LEAF.key_pem


def test_a_pair_that_does_not_fit_changes_nothing(booted: Disk, tmp_path: Path) -> None:
    other = issue(OTHER_HOST, hosts=[OTHER_HOST])
    before = state(booted)
    done = take(booted, write(tmp_path, other.pem, other))
    assert done.status == 1
    assert f"does not cover {HOST}. Nothing was changed. Hint:" in done.error
    assert state(booted) == before


def test_every_alias_must_be_covered(booted: Disk, brought: tuple[Path, Path]) -> None:
    assert ran(booted, "set_hostname", HOST, "alias.test").status == 0
    assert "does not cover alias.test" in take(booted, brought).error


def test_what_nginx_refuses_changes_nothing(booted: Disk, brought: tuple[Path, Path]) -> None:
    break_nginx(booted)
    before = state(booted)
    assert take(booted, brought).status == 1
    assert state(booted) == before


@pytest.mark.parametrize("open_to", [0o644, 0o602])
def test_a_key_that_everybody_may_open_is_refused(
    booted: Disk, brought: tuple[Path, Path], open_to: int
) -> None:
    brought[1].chmod(open_to)
    before = state(booted)
    done = take(booted, brought)
    assert done.status == 1
    assert "chmod 600" in done.error
    assert state(booted) == before


@pytest.mark.parametrize("what", ["missing", "folder", "pipe", "large", "device"])
def test_a_file_that_is_none_is_refused_at_once(
    booted: Disk, brought: tuple[Path, Path], tmp_path: Path, what: str
) -> None:
    odd = tmp_path / what
    if what == "folder":
        odd.mkdir()
    elif what == "pipe":
        os.mkfifo(odd, 0o600)
    elif what == "large":
        odd.write_bytes(b"x" * (1 << 21))
    elif what == "device":
        odd.symlink_to("/dev/zero")
    before = state(booted)
    for pair in ((odd, brought[1]), (brought[0], odd)):
        done = take(booted, pair)
        assert done.status == 1
        assert str(odd) in done.error
        assert "Traceback" not in done.error
    assert state(booted) == before


@pytest.mark.parametrize(
    "words",
    [(), ("--cert", "x"), ("--key", "x"), ("--cert", "x", "--key", "x", "--self-signed"), ("x",)],
)
def test_wrong_use_changes_nothing(booted: Disk, words: tuple[str, ...]) -> None:
    before = state(booted)
    assert ran(booted, "set_certificate", *words).status == 2
    assert state(booted) == before
