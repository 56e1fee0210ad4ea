"""`infinity-api-key` on a disk: names, grace, what a failure leaves, hostile names."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest
from command_support import break_nginx, ran, state
from firstboot_support import Disk

from appliance import expiry, identity, keyring, keys, settings
from appliance.errors import ApplianceError

SHAPE = re.compile(r"inf-[0-9a-f]{48}\n")


def names(disk: Disk) -> list[str]:
    return [key.name for key in keyring.accepted(disk.paths)]


def told(disk: Disk) -> str:
    return identity.read_credentials(disk.paths)["INFINITY_API_KEY"]


def test_a_key_that_was_added_is_printed_once_and_let_in_by_its_name(booted: Disk) -> None:
    before = told(booted)
    made = ran(booted, "api_key", "add", "search")
    assert made.status == 0, made.error
    assert SHAPE.fullmatch(made.output)
    assert names(booted) == ["unnamed", "search"]
    assert keyring.accepted(booted.paths)[1].token == made.output.strip()
    assert told(booted) == before
    booted.gate.test()


def test_list_tells_names_and_ends_and_never_a_key(booted: Disk) -> None:
    key = ran(booted, "api_key", "add", "search").output.strip()
    ran(booted, "api_key", "rotate", "search", "--grace", "1h")
    listed = ran(booted, "api_key", "list")
    assert [line.split()[0] for line in listed.output.splitlines()] == [
        "unnamed",
        "search",
        "search",
    ]
    assert listed.output.count("until") == 1
    rows = json.loads(ran(booted, "api_key", "list", "--json").output)["keys"]
    assert [row["in_credentials_file"] for row in rows] == [True, False, False]
    for text in (listed.output, listed.error, json.dumps(rows)):
        assert key not in text
        assert told(booted) not in text


def test_rotating_the_key_of_the_credentials_file_keeps_the_file_true(booted: Disk) -> None:
    old = told(booted)
    made = ran(booted, "api_key", "rotate", "unnamed").output.strip()
    assert made != old
    assert told(booted) == made
    assert [key.token for key in keyring.accepted(booted.paths)] == [made]


def test_in_the_grace_period_both_keys_work_and_the_new_one_comes_first(booted: Disk) -> None:
    old = told(booted)
    made = ran(booted, "api_key", "rotate", "unnamed", "--grace", "1h").output.strip()
    new_key, old_key = keyring.accepted(booted.paths)
    assert (new_key.token, new_key.until) == (made, None)
    assert old_key.token == old
    assert old_key.until is not None
    left = old_key.until - dt.datetime.now(dt.UTC)
    assert dt.timedelta(minutes=50) < left <= dt.timedelta(hours=1)
    assert identity.first_key(booted.paths) == made
    booted.gate.test()


def test_a_second_rotation_does_not_prolong_the_first_keys_grace(booted: Disk) -> None:
    ran(booted, "api_key", "rotate", "unnamed", "--grace", "1h")
    ran(booted, "api_key", "rotate", "unnamed", "--grace", "2h")
    _, middle, first = keyring.accepted(booted.paths)
    assert middle.until
    assert first.until
    assert first.until < middle.until


def test_a_rotation_without_grace_ends_an_earlier_grace(booted: Disk) -> None:
    ran(booted, "api_key", "rotate", "unnamed", "--grace", "1h")
    ran(booted, "api_key", "rotate", "unnamed")
    assert [key.until for key in keyring.accepted(booted.paths)] == [None]


def test_expire_removes_what_is_over_and_nothing_else(booted: Disk) -> None:
    past = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)
    text = keyring.read(booted.paths) + keys.line("search", "inf-" + "0" * 48, past)
    booted.paths.api_key_map.write_text(text + "# kept\n")
    done = ran(booted, "api_key", "expire")
    assert done.status == 0, done.error
    assert "search" in done.error
    assert names(booted) == ["unnamed"]
    assert "# kept" in keyring.read(booted.paths)


def test_revoke_refuses_the_key_and_the_file_no_longer_tells_it(booted: Disk) -> None:
    assert ran(booted, "api_key", "revoke", "unnamed").status == 0
    assert names(booted) == []
    assert told(booted) == ""
    listed = ran(booted, "api_key", "list")
    assert (listed.status, listed.output) == (0, "")


def test_a_file_that_tells_a_key_of_long_ago_tells_the_new_one(booted: Disk) -> None:
    booted.paths.api_key_map.write_text(keys.line(keys.UNNAMED, "inf-by-hand"))
    made = ran(booted, "api_key", "rotate", "unnamed").output.strip()
    assert told(booted) == made


def test_a_named_key_in_the_file_is_followed_by_its_successor(booted: Disk) -> None:
    booted.paths.api_key_map.write_text(keys.line("ci", told(booted)))
    made = ran(booted, "api_key", "rotate", "ci", "--grace", "1h").output.strip()
    assert told(booted) == made


def test_a_map_written_by_hand_is_kept_and_listed_as_unnamed(booted: Disk) -> None:
    by_hand = b'# caf\xe9\n\'Bearer inf-by-hand\'  1 ;\n"Bearer x-team" "Search Team";\n'
    booted.paths.api_key_map.write_bytes(by_hand)
    assert names(booted) == ["unnamed", "Search Team"]
    assert ran(booted, "api_key", "add", "more").status == 0
    assert booted.paths.api_key_map.read_bytes().startswith(by_hand)
    assert ran(booted, "api_key", "revoke", "Search Team").status == 0
    assert names(booted) == ["unnamed", "more"]


@pytest.mark.parametrize(
    "words", [("rotate", "nobody"), ("revoke", "nobody"), ("revoke", "unname")]
)
def test_a_name_that_is_not_there_is_one_sentence(booted: Disk, words: tuple[str, ...]) -> None:
    before = state(booted)
    done = ran(booted, "api_key", *words)
    assert done.status == 1
    assert "Hint" in done.error
    assert state(booted) == before


def test_a_name_is_given_once(booted: Disk) -> None:
    ran(booted, "api_key", "add", "search")
    before = state(booted)
    assert ran(booted, "api_key", "add", "search").status == 1
    assert state(booted) == before


@pytest.mark.parametrize(
    "words",
    [
        ("add", ""),
        ("add", "0"),
        ("add", "1"),
        ("add", "10"),
        ("add", "unnamed"),
        ("add", "login"),
        ("add", 'x";'),
        ("add", "x; include /etc/shadow"),
        ("add", "x\n"),
        ("add", "$http_authorization"),
        ("add", "é"),
        ("add", "a" * 64),
        ("add",),
        ("rotate", "unnamed", "--grace", "-1h"),
        ("rotate", "unnamed", "--grace", "1"),
        ("rotate", "unnamed", "--grace", "91d"),
        ("rotate", "unnamed", "--grace", "999999999d"),
        ("rotate", "unnamed", "--grace", "\u0661h"),
        ("rotate", "unnamed", "--gra", "1h"),
        ("frobnicate",),
        (),
    ],
)
def test_wrong_use_changes_nothing(booted: Disk, words: tuple[str, ...]) -> None:
    before = state(booted)
    assert ran(booted, "api_key", *words).status == 2
    assert state(booted) == before


@pytest.mark.parametrize("words", [("add", "x"), ("rotate", "unnamed"), ("revoke", "unnamed")])
def test_what_nginx_refuses_changes_nothing_and_prints_no_key(
    booted: Disk, words: tuple[str, ...]
) -> None:
    break_nginx(booted)
    before = state(booted)
    done = ran(booted, "api_key", *words)
    assert done.status == 1
    assert done.output == ""
    assert "Nothing was changed." in done.error
    assert state(booted) == before


@pytest.mark.parametrize("words", [("add", "x"), ("rotate", "unnamed")])
def test_a_key_that_cannot_be_handed_over_is_not_let_in(
    booted: Disk, words: tuple[str, ...]
) -> None:
    before = state(booted)
    with open("/dev/full", "w") as full:
        assert ran(booted, "api_key", *words, stdout=full).status == 1
    assert state(booted) == before


def test_a_failed_rotation_leaves_the_end_of_an_earlier_grace(
    booted: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(booted, "api_key", "rotate", "unnamed", "--grace", "1h")
    _, fading = keyring.accepted(booted.paths)
    armed: list[dt.datetime] = []
    monkeypatch.setattr(expiry, "arm", lambda ends, _: armed.extend(ends))
    break_nginx(booted)
    known = settings.required(booted.paths)
    with pytest.raises(ApplianceError):
        keyring.rotate("unnamed", dt.timedelta(), known, booted.gate, print)
    assert armed == [fading.until]


def test_a_change_that_was_killed_is_taken_back_by_the_next_command(booted: Disk) -> None:
    text = keyring.read(booted.paths)
    assert booted.killed_before_commit(
        lambda: keyring.add("lost", settings.required(booted.paths), booted.gate, print)
    )
    assert names(booted) == ["unnamed", "lost"]
    assert ran(booted, "restore").status == 0
    assert keyring.read(booted.paths) == text
