"""Takes secrets out of a text: those that are known in any form, and whatever looks like one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from appliance.support.forms import forms, lower, squeezed

MARK = "[redacted]"
# Characters in a row that give a secret away: a piece of one is found where a line was cut in two.
WINDOW = 8
SHORTEST = 6  # letters and digits; less would be found in every text
_RUN = re.compile(r"[a-z0-9]+")

# What looks like a secret, known or not: keys that were revoked, tokens of others.
_PATTERNS = (
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
    ),
    re.compile(r"(?i)\binf-[0-9a-f]{8,}"),
    re.compile(r"(?i)(?<=authorization)[\"']?\s*[:=]\s*[\"']?\s*(?:[a-z]+\s+)?[^\s\"',;]+"),
    re.compile(r"(?i)(?<=bearer )\s*[^\s\"',;]+"),
    re.compile(r"(?i)(?<=\bbasic )\s*[a-z0-9+/_-]{8,}=*"),
    re.compile(r"(?i)(?:(?<=cookie:)|(?<=x-api-key:))[^\n]+"),
    re.compile(r"\$(?:2[abxy]|apr1|1|5|6|y|argon2\w*)\$[^\s:\"']+"),
    re.compile(r"\{S?(?:SHA|MD5)\}\S+"),
    re.compile(r"\bhf_[A-Za-z0-9]{16,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(
        r"(?i)(?<![a-z0-9])(?:[\w-]*[_-])?(?:password|passwd|secret|token|api_?key)s?"
        r"(?P<assign>[\"']?\s*[=:]\s*[\"']?)(?P<value>[^\s\"',;&]{4,})"
    ),
)
# Values after such a word that are none.
_PLAIN = re.compile(r"(?i)(?:true|false|null|none|yes|no|\d{1,4}|/\S*|\[redacted\].*|\{.*|\[.*)")


class Redactor:
    """Replaces secrets by ``[redacted]``. ``count`` is how many times."""

    def __init__(self, secrets: Iterable[str], whole: Iterable[str] = ()) -> None:
        """Learn what to replace.

        Args:
            secrets: in any form, and in pieces.
            whole: in any form, but only as a whole: lines of which a part says nothing.
        """
        self.count = 0
        self._windows: dict[int, set[str]] = {}
        self._short: list[str] = []
        for secret in secrets:
            self._learn(secret, WINDOW)
        for secret in whole:
            self._learn(secret, len(secret) * 8)

    def _learn(self, secret: str, window: int) -> None:
        if len(squeezed(secret)) < SHORTEST:
            # Too short, or all signs, to be recognised in pieces.
            self._short += [secret] if len(secret) >= 3 else []  # noqa: PLR2004
            return
        for form in map(squeezed, forms(secret)):
            size = min(window, len(form))
            windows = self._windows.setdefault(size, set())
            windows.update(form[at : at + size] for at in range(len(form) - size + 1))

    def text(self, text: str) -> str:
        """The text without secrets."""
        text = self._without(text, list(self._known(text)))
        for secret in self._short:
            self.count += text.count(secret)
            text = text.replace(secret, MARK)
        for pattern in _PATTERNS:
            text = pattern.sub(self._mark, text)
        return text

    def _mark(self, found: re.Match[str]) -> str:
        groups = found.groupdict()
        if "value" not in groups:
            self.count += 1
            return f" {MARK}" if found[0][:1] in " :=\"'" else MARK
        if _PLAIN.fullmatch(groups["value"]):
            return found[0]
        self.count += 1
        return found[0][: found.start("value") - found.start()] + MARK

    def _known(self, text: str) -> Iterator[tuple[int, int]]:
        """Where known secrets, or pieces of them, are: pairs of first and end."""
        runs = [(run.start(), run[0]) for run in _RUN.finditer(lower(text))]
        flat = "".join(run for _, run in runs)
        starts, position = [], 0
        for _, run in runs:
            starts.append(position)
            position += len(run)

        def place(at: int) -> int:
            index = bisect_right(starts, at) - 1
            return runs[index][0] + at - starts[index]

        for size, windows in self._windows.items():
            for at in range(len(flat) - size + 1):
                if flat[at : at + size] in windows:
                    yield place(at), place(at + size - 1) + 1

    def _without(self, text: str, found: list[tuple[int, int]]) -> str:
        parts, done = [], 0
        for first, end in _merged(found):
            parts += [text[done:first], MARK]
            done = end
            self.count += 1
        return "".join([*parts, text[done:]])


def _merged(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, end in sorted(found):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return merged
