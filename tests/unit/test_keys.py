"""The key map as text: what is read in it, and that nothing else in it changes."""

from __future__ import annotations

import datetime as dt

import pytest

from appliance import keys

ONE, TWO = "inf-" + "1a" * 24, "inf-" + "2b" * 24
END = dt.datetime(2026, 11, 30, 10, 0, tzinfo=dt.UTC)


def read(text: str) -> list[tuple[str, str, dt.datetime | None]]:
    return [(key.token, key.name, key.until) for key in keys.parse(text)]


@pytest.mark.parametrize("name", ["team", keys.UNNAMED, "a.b_c-d", 'odd "name" \\ here'])
@pytest.mark.parametrize("until", [None, END])
def test_a_line_reads_back_as_it_was_meant(name: str, until: dt.datetime | None) -> None:
    assert read(keys.line(name, ONE, until)) == [(ONE, name, until)]


def test_lines_written_by_hand_in_nginxs_ways_are_read() -> None:
    text = f"""# keys
      'bearer {ONE}'
         "Search Team"   ; "Bearer {TWO}" 1; # ours
    """
    assert read(text) == [(ONE, "Search Team", None), (TWO, keys.UNNAMED, None)]


@pytest.mark.parametrize(
    "text",
    [
        f'#"Bearer {ONE}" 1;',
        f'"Bearer {ONE}" 0;',
        f'"Bearer {ONE}" "";',
        f'"Bearer {ONE}" 1',
        f'"Basic {ONE}" 1;',
        f'"x" \'"Bearer {ONE}" 1;\';',
        f'"~^Bearer {ONE}" 1;',
    ],
)
def test_what_lets_no_key_in_is_no_key(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    "text", ['"~^Bearer .*" 1;', "include more.map;", "default x;", "hostnames;"]
)
def test_a_line_that_may_let_somebody_in_is_counted(text: str) -> None:
    assert keys.unread(text) == 1


@pytest.mark.parametrize("text", ["", "# x", "default 0;", f'"Bearer {ONE}" 1;', '"~x" "";'])
def test_a_line_that_lets_nobody_unknown_in_is_not(text: str) -> None:
    assert keys.unread(text) == 0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f'"Bearer {ONE.upper()}" x;', "x"),  # nginx compares in lower case
        (f'"\\\\Bearer {ONE}" x;', "x"),  # and drops a backslash in front
        (f'"Bearer {ONE}" \xa00;', "\xa00"),  # a space of another kind is no space
        (f'"Bearer {ONE}" "\\0";', "\\0"),  # a backslash that escapes nothing stays
    ],
)
def test_what_nginx_lets_in_is_seen(text: str, name: str) -> None:
    assert read(text) == [(ONE, name, None)]


def test_a_key_of_other_signs_than_ours_is_seen_and_ends() -> None:
    odd = "secret:key!with_signs"
    text = f'"Bearer {odd}" old; # until 2026-11-30T10:00:00Z\r\n'
    assert read(text) == [(odd, "old", END)]


def test_what_nginx_refuses_is_not_seen() -> None:
    assert read(rf"Bearer\ {ONE} back;") == []


def test_a_date_that_is_none_is_over() -> None:
    (key,) = keys.parse(f'"Bearer {ONE}" x; # until 2026-02-30T00:00:00Z')
    assert key.over(END)


def test_an_edit_leaves_every_other_byte() -> None:
    text = f'# é\udce9\n"Bearer {ONE}" a; # mine\n\tinclude x;\n"Bearer {TWO}" b;\n# end'
    one, two = keys.parse(text)
    assert (
        keys.edited(text, {one: "", two: "NEW\n"}) == "# é\udce9\n # mine\n\tinclude x;\nNEW\n# end"
    )


def test_a_key_shows_itself_to_nobody() -> None:
    (key,) = keys.parse(keys.line("a", ONE))
    assert ONE not in repr(key)
    assert key.fingerprint not in ONE
