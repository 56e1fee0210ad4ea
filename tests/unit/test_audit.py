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
