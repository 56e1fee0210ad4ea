"""The audit's table: what did not run has not passed, and what failed decides."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, cast

import pytest

from appliance.errors import ApplianceError
from audit import collect, table
from audit.row import Verdict, judged, untested
from audit.rows import faults, soak
from machine.instance import Machine

NO_MACHINE = cast("Machine", None)


def test_tool_that_does_not_run_is_a_failed_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Machine) -> NoReturn:
        raise ApplianceError("no such tool")

    monkeypatch.setattr("importlib.import_module", lambda _: SimpleNamespace(rows=broken))
    (row,) = collect.collect(NO_MACHINE, ["scanner"])
    assert row.verdict is Verdict.FAILED
    assert "no such tool" in row.measured


def test_every_module_of_rows_is_found() -> None:
    names = collect.modules()
    assert {"lynis", "ssh_audit", "testssl", "tests"} <= set(names)


def test_table_and_file_say_the_same(tmp_path: Path) -> None:
    rows = [
        judged("sshd", "ssh-audit", "no fail", "1 failed", passed=False),
        untested("kernel", "sysctl", "set", "shared"),
    ]
    table.save(rows, tmp_path / "audit.json")
    saved = json.loads((tmp_path / "audit.json").read_text())
    assert [each["verdict"] for each in saved] == ["FAILED", "untested"]
    assert all(each["measured"] in table.text(rows) for each in saved)


FAULTS = {"a power cut during load": [20.0] * 50, "a kill of the server": [70.0]}


def test_a_fault_with_a_longer_way_back_than_a_minute_fails_alone() -> None:
    assert faults.together(FAULTS, [], passed=True).verdict is Verdict.PASSED
    verdicts = {row.control: row.verdict for row in faults.each(FAULTS)}
    assert verdicts["back after a power cut during load"] is Verdict.PASSED
    assert verdicts["back after a kill of the server"] is Verdict.FAILED


def test_a_failed_fault_test_is_named_and_fewer_cuts_are_no_proof() -> None:
    row = faults.together(FAULTS, ["FAILED test_x"], passed=False)
    assert row.verdict is Verdict.FAILED
    assert "test_x" in row.measured
    few = {"a power cut during load": [20.0] * 3}
    assert faults.together(few, [], passed=True).verdict is Verdict.UNTESTED


def test_only_a_soak_of_this_very_commit_stands_for_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"commit": "abc", "minutes": 30.0}
    monkeypatch.setattr(soak, "current_commit", lambda: "abc")
    assert soak.fresh(told, 30)
    assert not soak.fresh({**told, "minutes": 2.0}, 30)
    assert not soak.fresh({}, 30)
    for other in ("abcd", "abc+", "unknown"):
        monkeypatch.setattr(soak, "current_commit", lambda other=other: other)
        assert not soak.fresh({**told, "commit": other} if other != "abcd" else told, 30)
