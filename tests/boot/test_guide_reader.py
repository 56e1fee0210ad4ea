"""The guide's reader itself: it must see every block, and a wrong output must not pass."""

from __future__ import annotations

import pytest

from appliance.ami import guide
from appliance.ami.guide import Block, Expected

BLOCKS = guide.blocks(guide.GUIDE.read_text())
MADE_UP = """
## Step 3: Something
<!-- varies: \\d+ s -->
<!-- optional: resolve -->
```sh
not executed
```
```console
one
two
```
<!-- optional: resolve -->
```output
1
```
```python
three
```
"""


def differs(expected: Expected, actual: str, model: str = guide.DOCUMENTED_MODEL) -> bool:
    return bool(guide.difference(expected, actual, host="a.test", model=model))


def test_blocks_come_with_their_step_language_and_output() -> None:
    first, second = guide.blocks(MADE_UP)
    assert first == Block(3, 1, "console", "one\ntwo", Expected("1", optional=("resolve",)))
    assert second == Block(3, 2, "python", "three", None)


def test_every_executed_block_of_the_guide_has_an_output() -> None:
    assert [block.name for block in BLOCKS if block.expected is None] == []


@pytest.mark.parametrize("step", [2, 3, 4, 5, 6, 7, 8, 9, 11, 12])
def test_step_is_in_the_guide_and_executed(step: int) -> None:
    assert any(block.step == step for block in BLOCKS)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (Expected("a\nb"), "a"),
        (Expected("a"), "a\nb"),
        (Expected("a\nb"), "b\na"),
        (Expected("401"), "200"),
        (Expected(""), "error"),
        (Expected("took 3 s", varies=(r"\d s",)), "took long"),
        (Expected(f"https://{guide.EXAMPLE_HOST}/"), "https://b.test/"),
        (Expected("x 0.812", tolerance=0.001), "x 0.814"),
        (Expected("x 0.812", tolerance=0.001), "y 0.812"),
        (Expected("x 0.812", tolerance=0.001), "x none"),
    ],
)
def test_wrong_output_is_seen(expected: Expected, actual: str) -> None:
    assert differs(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (Expected("a\nb"), "a\nb\n"),
        (Expected("took 3 s", varies=(r"\d s",)), "took 4 s"),
        (Expected("a\nresolve", optional=("resolve",)), "a"),
        (Expected("a\nresolve", optional=("resolve",)), "a\nresolve"),
        (Expected(f"https://{guide.EXAMPLE_HOST}/"), "https://a.test/"),
        (Expected("x 0.812", tolerance=0.001), "x 0.8125"),
    ],
)
def test_right_output_passes(expected: Expected, actual: str) -> None:
    assert not differs(expected, actual)


def test_another_model_may_have_other_decimals_but_must_have_decimals() -> None:
    expected = Expected(f"{guide.DOCUMENTED_MODEL} 0.812", tolerance=0.001)
    assert not differs(expected, "mine 0.5", model="mine")
    assert differs(expected, "mine none", model="mine")
