"""`infinity-set-password` on a disk: the file and nginx agree, and off is off."""

from __future__ import annotations

import bcrypt
import pytest
from command_support import Ran, break_nginx, ran, state
from firstboot_support import OTHER_HOST, SECOND, Disk, metadata

from appliance import identity

NEW = "correct horse battery staple"


def change(disk: Disk, *words: str, stdin: str | bytes = "") -> Ran:
    return ran(disk, "set_password", *words, stdin=stdin)


def told(disk: Disk) -> str:
    return identity.read_credentials(disk.paths)["INFINITY_PASSWORD"]


def accepted(disk: Disk, password: str, user: str = "admin") -> bool:
    lines = dict(line.split(":", 1) for line in disk.paths.htpasswd.read_text().splitlines()
                 if ":" in line)  # fmt: skip
    return user in lines and bcrypt.checkpw(password.encode(), lines[user].encode())


@pytest.mark.parametrize("stdin", [NEW, NEW + "\n", NEW + "\nsecond line\n"])
def test_a_password_from_a_pipe_is_accepted_and_told(booted: Disk, stdin: str) -> None:
    old = told(booted)
    done = change(booted, stdin=stdin)
    assert done.status == 0, done.error
    assert NEW not in done.output + done.error
    assert accepted(booted, NEW)
    assert not accepted(booted, old)
    assert told(booted) == NEW


def test_a_generated_password_is_shown_on_request_only(booted: Disk) -> None:
    assert told(booted) not in change(booted, "--generate").output
    shown = change(booted, "--generate", "--show").output.strip()
    assert shown == told(booted)
    assert accepted(booted, shown)


def test_a_generated_password_is_printed_where_no_file_tells_it(booted: Disk) -> None:
    booted.paths.credentials.unlink()
    shown = change(booted, "--generate").output.strip()
    assert accepted(booted, shown)
    assert not booted.paths.credentials.exists()


def test_other_users_of_the_operator_keep_their_login(booted: Disk) -> None:
    theirs = bcrypt.hashpw(b"theirs", bcrypt.gensalt(5)).decode()
    with booted.paths.htpasswd.open("a") as file:
        file.write(f"bob:{theirs}\n")
    assert change(booted, stdin=NEW).status == 0
    assert accepted(booted, "theirs", "bob")


def test_off_is_off_for_everybody_and_on_again_with_a_new_password(booted: Disk) -> None:
    old = told(booted)
    assert change(booted, "--disable").status == 0
    assert ":" not in booted.paths.htpasswd.read_text()
    assert told(booted) == ""
    booted.gate.test()
    before = state(booted)
    assert change(booted, stdin=NEW).status == 2
    assert state(booted) == before
    assert change(booted, "--enable").status == 0
    assert told(booted) not in {"", old}
    assert accepted(booted, told(booted))


def test_off_stays_off_over_a_boot_and_in_a_copy(booted: Disk) -> None:
    change(booted, "--disable")
    booted.boot()
    assert ":" not in booted.paths.htpasswd.read_text()
    booted.boot(metadata(SECOND, OTHER_HOST))
    assert ":" not in booted.paths.htpasswd.read_text()
    assert "INFINITY_PASSWORD" not in identity.read_credentials(booted.paths)


def test_an_instance_that_never_had_a_login_tells_its_first_password(disk: Disk) -> None:
    disk.paths.login_off.touch()
    disk.boot()
    assert "INFINITY_PASSWORD" not in identity.read_credentials(disk.paths)
    assert change(disk, "--enable").status == 0
    assert accepted(disk, told(disk))


def test_a_password_with_a_strange_line_end_is_read_back_whole(booted: Disk) -> None:
    strange = "correct horse\u2028INFINITY_HOST=evil"
    assert change(booted, stdin=strange).status == 0
    assert told(booted) == strange


@pytest.mark.parametrize(
    "stdin", ["", "\n", "short", "x" * 73, "a tab\tin the middle", b"\xff" * 20, "nul\0" * 5]
)
def test_a_password_that_cannot_be_used_changes_nothing(booted: Disk, stdin: str | bytes) -> None:
    before = state(booted)
    done = change(booted, stdin=stdin)
    assert done.status == 2
    assert "Hint" in done.error
    assert state(booted) == before


@pytest.mark.parametrize(
    "words", [("--generate", "--disable"), ("--show",), ("--disable", "--show"), (NEW,)]
)
def test_wrong_use_changes_nothing(booted: Disk, words: tuple[str, ...]) -> None:
    before = state(booted)
    assert change(booted, *words, stdin=NEW).status == 2
    assert state(booted) == before


@pytest.mark.parametrize("words", [(), ("--generate",), ("--disable",), ("--enable",)])
def test_what_nginx_refuses_changes_nothing(booted: Disk, words: tuple[str, ...]) -> None:
    break_nginx(booted)
    before = state(booted)
    done = change(booted, *words, stdin=NEW)
    assert done.status == 1
    assert done.output == ""
    assert state(booted) == before
