"""The key map: who is let in, by which name and until when. The file is the truth.

A line is `"Bearer inf-…" NAME;`, or `1` in place of a name, as the user guide has it written by
hand. A key in its grace period ends with `# until TIME`. Whatever else an operator has written
there is left as it is.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

UNNAMED = "unnamed"  # how a key of value 1 is called, here and in the access log
LOGIN = "login"  # how the server's metrics call requests with the password
# A token of RFC 6750 in lower case, since nginx lets no other in.
TOKEN = re.compile(r"[a-z0-9._~+/-]+=*")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,62}")
_OFF = frozenset({"", "0"})
_TIME = "%Y-%m-%dT%H:%M:%SZ"

# nginx's own way of reading: words, bare or quoted, that end with a semicolon; a number sign
# starts a comment only where a word could start.
_LEXEME = re.compile(
    r"""(?P<space>[ \t\r\n]+) | (?P<comment>\#[^\n]*) | (?P<end>;)
    | "(?P<double>(?:\\.|[^"\\])*)" | '(?P<single>(?:\\.|[^'\\])*)'
    | (?P<bare>(?:\\.|[^ \t\r\n;\\])+)""",
    re.VERBOSE | re.DOTALL,
)
_UNTIL = re.compile(r"[ \t]*\# until (?P<time>[0-9T:-]{19}Z)[ \t]*(?=\r?\n|\Z)")
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"}
NEVER_WAS = dt.datetime.min.replace(tzinfo=dt.UTC)  # the end of a key whose date is none


@dataclass(frozen=True)
class Key:
    """A key that is let in. ``span`` is where its line is in the text; ``until`` is in UTC."""

    token: str = field(repr=False)
    name: str
    until: dt.datetime | None
    span: tuple[int, int]

    @property
    def fingerprint(self) -> str:
        """Tells keys apart without telling them: the start of the SHA-256."""
        return hashlib.sha256(self.token.encode("utf-8", "surrogateescape")).hexdigest()[:12]

    def over(self, now: dt.datetime) -> bool:
        return self.until is not None and self.until <= now


@dataclass(frozen=True)
class _Entry:
    words: tuple[str, ...]
    start: int
    end: int


def parse(text: str) -> tuple[Key, ...]:
    """Every key that this map lets in, in the order of its lines."""
    return tuple(key for entry in _entries(text) if (key := _key(text, entry)) is not None)


def unread(text: str) -> int:
    """How many lines may let somebody in that ``parse`` does not know: patterns, includes."""
    return sum(1 for entry in _entries(text) if _is_open(entry) and not _bearer(entry))


def words(text: str) -> Iterator[tuple[str, ...]]:
    """Every entry as nginx reads it, whatever it does: a pattern or a key, and its value."""
    return (entry.words for entry in _entries(text))


def line(name: str, token: str, until: dt.datetime | None = None) -> str:
    """A line of the map, with its line end."""
    quoted = name.replace("\\", r"\\").replace('"', r"\"")
    value = "1" if name == UNNAMED else f'"{quoted}"'
    mark = f" # until {until.strftime(_TIME)}" if until else ""
    return f'"Bearer {token}" {value};{mark}\n'


def edited(text: str, changes: Mapping[Key, str]) -> str:
    """The map with the lines of these keys replaced; every other byte stays."""
    for key in sorted(changes, key=lambda key: key.span, reverse=True):
        start, end = key.span
        text = text[:start] + changes[key] + text[end:]
    return text


def _entries(text: str) -> Iterator[_Entry]:
    words: list[str] = []
    start = position = 0
    while found := _LEXEME.match(text, position):
        position = found.end()
        if found["end"]:
            if words:
                yield _Entry(tuple(words), start, position)
            words = []
        elif not (found["space"] or found["comment"]):
            start = start if words else found.start()
            words.append(_plain(found))


def _plain(found: re.Match[str]) -> str:
    written = next(text for text in found.group("double", "single", "bare") if text is not None)
    return re.sub(r"""\\(["'\\trn])""", lambda found: _ESCAPES.get(found[1], found[1]), written)


def _is_open(entry: _Entry) -> bool:
    return len(entry.words) != 2 or entry.words[1] not in _OFF  # noqa: PLR2004 - name and value


def _bearer(entry: _Entry) -> bool:
    return _pattern(entry).startswith("bearer ")


def _pattern(entry: _Entry) -> str:
    """What is compared: `map` drops one backslash in front, and the case."""
    return entry.words[0].removeprefix("\\").lower()


def _key(text: str, entry: _Entry) -> Key | None:
    if len(entry.words) != 2 or not _is_open(entry) or not _bearer(entry):  # noqa: PLR2004
        return None
    token, value = _pattern(entry)[len("bearer ") :], entry.words[1]
    mark = _UNTIL.match(text, entry.end)
    until = None
    if mark:
        until = _moment(mark["time"])
    end = mark.end() if mark else entry.end
    if text[end : end + 1] == "\n":
        end += 1
    return Key(token, UNNAMED if value == "1" else value, until, (entry.start, end))


def _moment(written: str) -> dt.datetime:
    """When a grace period ends; a date that is none is long over."""
    try:
        return dt.datetime.strptime(written, _TIME).replace(tzinfo=dt.UTC)
    except ValueError:
        return NEVER_WAS
