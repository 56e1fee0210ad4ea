"""The arithmetic of docs/sizing.md."""

from __future__ import annotations

import gzip
import json
import re
from importlib import resources
from pathlib import Path

import pytest

from tests.bench.law import FLEET_SHARE, Law
from tests.bench.sizing_page import HOURS, INSTANCES, page, per_million

FOUND = {
    "cpu": "Some CPU",
    "model": "some/model",
    "rounds": 2,
    "resident_mb": 1234.5,
    "runs": {"32 mixed passages, tokens/s": {"1": [900.0, 1100.0], "2": [1700.0, 1900.0]}},
}


def test_law_goes_through_what_was_measured() -> None:
    law = Law.fit({1: 1000, 2: 1800})
    assert law.rate(1) == pytest.approx(1000)
    assert law.rate(2) == pytest.approx(1800)
    assert law.parallel == pytest.approx(8 / 9)
    assert law.rate(4) == pytest.approx(3000)


def test_more_cores_never_count_for_more_than_they_are() -> None:
    assert Law.fit({1: 1000, 2: 2500}).rate(8) == pytest.approx(8000)
    assert Law.fit({1: 1000, 2: 900}).rate(8) == pytest.approx(1000)


def test_one_core_alone_gives_no_law() -> None:
    with pytest.raises(ValueError, match="one core"):
        Law.fit({1: 1000})


def test_members_of_a_fleet_add_up_less_the_reserve() -> None:
    law = Law(1000, 0.9)
    assert law.fleet(2, 3) == pytest.approx(3 * law.rate(2) * FLEET_SHARE)


def test_price_of_a_million_tokens() -> None:
    assert per_million(0.36, 1000) == pytest.approx(0.1)


def test_page_states_each_type_with_its_arithmetic() -> None:
    law = Law.fit({1: 1000, 2: 1800})
    text = page(FOUND, law)
    row = next(line for line in text.splitlines() if line.startswith("| c7i.xlarge |"))
    month = round(0.1785 * HOURS)
    assert row == f"| c7i.xlarge | 4 | 2 | 8 | 1,800 | {month} | {0.1785 / 1800 / 3600 * 1e6:.4f} |"
    assert "at most 1,234 MB" in text
    assert "T1 = 1000 tokens/s, p = 0.889" in text


def test_document_is_what_the_page_makes_of_its_own_figures() -> None:
    """Nobody changed a figure by hand: the law in docs/sizing.md gives each of its rows."""
    text = Path("docs/sizing.md").read_text()
    one_core, parallel = map(float, re.findall(r"T1 = (\d+) tokens/s, p = ([\d.]+)", text)[0])
    law = Law(one_core, parallel)
    for each in INSTANCES:
        cells = next(x for x in text.splitlines() if x.startswith(f"| {each.type} |")).split(" | ")
        assert float(cells[4].replace(",", "")) == pytest.approx(law.rate(each.cores), rel=0.01)


def test_sizes_are_those_that_ec2_describes() -> None:
    """Against moto's copy of what DescribeInstanceTypes answers."""
    packed = resources.files("moto.ec2.resources").joinpath("instance_types.json.gz").read_bytes()
    described = json.loads(gzip.decompress(packed))
    for each in INSTANCES:
        known = described[each.type]
        assert known["VCpuInfo"]["DefaultVCpus"] == each.vcpus
        assert known["VCpuInfo"]["DefaultCores"] == each.cores
        assert known["MemoryInfo"]["SizeInMiB"] == each.memory * 1024
