"""docs/guide.md as tests: its command blocks, what they should print, and the comparison.

The guide's last section documents the notation for its readers: ``console`` blocks are typed
in the machine, ``python`` blocks run on a client, the ``output`` block that follows is what
must come out, and hidden comments before it say what may differ:

    <!-- varies: REGEX -->        each match, expected and actual, counts as equal
    <!-- optional: REGEX -->      expected lines that match may be missing
    <!-- model numbers: X -->     decimals agree within X where the documented model is served,
                                  and only have to be decimals where another is

The example's host name and model stand for the machine's own.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide.md"
EXAMPLE_HOST = "ec2-203-0-113-25.compute-1.amazonaws.com"
DOCUMENTED_MODEL = "BAAI/bge-small-en-v1.5"

# Before a client's program: stands in for DNS, which does not know the machine's name.
RESOLVER = """
import socket
known = socket.getaddrinfo
socket.getaddrinfo = lambda host, *rest, **named: known(
    {address!r} if host in ({host!r}, {host!r}.encode()) else host, *rest, **named)
"""

_DECIMAL = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")
_STEP = re.compile(r"## Step (\d+):")
_FENCE = re.compile(r"```(\w*)$")
_COMMENT = re.compile(r"<!-- (varies|optional|model numbers): (.+) -->$")


@dataclass(frozen=True)
class Expected:
    """An ``output`` block with the comments before it."""

    text: str
    varies: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    tolerance: float | None = None


@dataclass(frozen=True)
class Block:
    """A block to execute: ``language`` is console or python, ``number`` counts within the step."""

    step: int
    number: int
    language: str
    code: str
    expected: Expected | None

    @property
    def name(self) -> str:
        return f"step-{self.step}-{self.number}"


def blocks(markdown: str) -> list[Block]:
    """Every block that is executed, in order, each with the output block after it."""
    found: list[Block] = []
    step = 0
    comments: list[tuple[str, str]] = []
    lines = iter(markdown.splitlines())
    for line in lines:
        if match := _STEP.match(line):
            step = int(match[1])
        elif match := _COMMENT.match(line):
            comments.append((match[1], match[2]))
        elif match := _FENCE.match(line):
            body = "\n".join(iter(lambda: next(lines), "```"))
            if match[1] == "output":
                found.append(_answered(found.pop(), _expected(body, comments)))
            elif match[1] in {"console", "python"}:
                number = 1 + sum(block.step == step for block in found)
                found.append(Block(step, number, match[1], body, None))
            comments = []
    return found


def _answered(block: Block, expected: Expected) -> Block:
    if block.expected is not None:
        raise ValueError(f"{block.name} has two output blocks")
    return Block(block.step, block.number, block.language, block.code, expected)


def _expected(text: str, comments: list[tuple[str, str]]) -> Expected:
    def values(kind: str) -> tuple[str, ...]:
        return tuple(value for name, value in comments if name == kind)

    tolerance = [float(value) for value in values("model numbers")]
    return Expected(text, values("varies"), values("optional"), tolerance[0] if tolerance else None)


def difference(expected: Expected, actual: str, *, host: str, model: str) -> str:
    """What is wrong with the output, as a diff; empty when it is as the guide shows.

    Args:
        expected: of the block.
        actual: what it printed.
        host: the name that the machine serves.
        model: the model that it serves.
    """
    wanted = expected.text.replace(EXAMPLE_HOST, host).replace(DOCUMENTED_MODEL, model)
    exact = model == DOCUMENTED_MODEL
    want, numbers = _skeleton(expected, wanted)
    have, measured = _skeleton(expected, actual.rstrip("\n"))
    want = [
        line
        for line in want
        if line in have or not any(re.search(regex, line) for regex in expected.optional)
    ]
    if want != have:
        return "\n".join(difflib.unified_diff(want, have, "guide", "machine", lineterm=""))
    if expected.tolerance is None or not exact:
        return ""
    pairs = zip(numbers, measured, strict=True)
    far = [f"{a} became {b}" for a, b in pairs if abs(a - b) > expected.tolerance]
    return "\n".join(far)


def _skeleton(expected: Expected, text: str) -> tuple[list[str], list[float]]:
    """The lines with everything that may vary masked, and the decimals that were."""
    numbers: list[float] = []
    for index, regex in enumerate(expected.varies):
        text = re.sub(regex, f"<{index}>", text, flags=re.MULTILINE)
    if expected.tolerance is not None:
        numbers = [float(number) for number in _DECIMAL.findall(text)]
        text = _DECIMAL.sub("<number>", text)
    return text.splitlines(), numbers
