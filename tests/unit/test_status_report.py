"""The JSON is what its schema says, whole or with every part missing; the page fits a screen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped] # it comes without types
import pytest
from status_support import HEALTHY

from appliance.status import screen
from appliance.status.report import Host, Parts, Problem, Status, Unknown

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs/status.schema.json").read_text())
PROBLEM = Problem("x" * 300, "sudo mend")
NOTHING = Parts(unknown=(Unknown("host", "no\x1b[31m reason"),))


def taken(parts: Parts, *problems: Problem) -> Status:
    return Status("2026-11-30T08:00:00Z", parts, problems)


@pytest.mark.parametrize("parts", [HEALTHY, NOTHING])
def test_the_document_is_what_its_schema_says(parts: Parts) -> None:
    document = json.loads(taken(parts, PROBLEM).as_json())
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["healthy"] is False


def test_every_field_is_in_the_schema() -> None:
    assert unwritten(SCHEMA, json.loads(taken(HEALTHY, PROBLEM).as_json())) == []


def unwritten(schema: dict[str, Any], value: Any, path: str = "") -> list[str]:  # noqa: ANN401
    """Fields of a document that the schema does not name."""
    if isinstance(value, list):
        return [name for each in value for name in unwritten(schema["items"], each, path)]
    if not isinstance(value, dict):
        return []
    named = schema["properties"]
    return [
        name
        for key, inner in value.items()
        for name in (
            unwritten(named[key], inner, f"{path}/{key}") if key in named else [f"{path}/{key}"]
        )
    ]


def test_a_healthy_page_fits_a_screen() -> None:
    lines = screen.page(taken(HEALTHY), colours=False).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "Nothing is wrong."


def test_a_page_of_long_values_and_problems_stays_readable() -> None:
    assert HEALTHY.host
    aliases = tuple(f"alias-{number}.example.com" for number in range(50))
    parts = replace(HEALTHY, host=replace(HEALTHY.host, aliases=aliases))
    lines = screen.page(taken(parts, PROBLEM), colours=False).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
    assert lines[-1] == "  sudo mend"


def test_a_page_without_any_part_says_why() -> None:
    assert "unknown: no?[31m reason" in screen.page(taken(NOTHING), colours=False)


def test_only_a_terminal_gets_colours_and_nobody_foreign_control_characters() -> None:
    hostile = replace(HEALTHY, host=Host("\x1b]0;x\x07\nfake", "", (), follows_metadata=False))
    plain = screen.page(taken(hostile, Problem("\x1b[2J", "x")), colours=False)
    assert "\x1b" not in plain
    assert "\x07" not in plain
    assert "\x1b[31m! ?[2J\x1b[0m" in screen.page(
        taken(hostile, Problem("\x1b[2J", "x")), colours=True
    )
