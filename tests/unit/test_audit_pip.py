from __future__ import annotations

import json

import pytest

from appliance.errors import ApplianceError
from appliance.run import Completed
from audit.row import Verdict
from audit.rows import pip_audit

CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "1", "vulns": [{"id": "PYSEC-1"}]}
SKIPPED = {"name": "c", "skip_reason": "Dependency not found on PyPI"}


def _answer(*packages: dict[str, object]) -> Completed:
    return Completed(0, json.dumps({"dependencies": packages, "fixes": []}), "")


@pytest.mark.parametrize(
    ("packages", "verdict", "words"),
    [
        ([CLEAN], Verdict.PASSED, "0 of 1"),
        ([CLEAN, BAD], Verdict.FAILED, "1 of 2 b:PYSEC-1"),
        ([CLEAN, SKIPPED], Verdict.FAILED, "unknown: c"),
        ([SKIPPED], Verdict.UNTESTED, "knows none of them"),
    ],
)
def test_a_package_that_was_not_judged_is_not_passed(
    monkeypatch: pytest.MonkeyPatch,
    packages: list[dict[str, object]],
    verdict: Verdict,
    words: str,
) -> None:
    monkeypatch.setattr(pip_audit, "run", lambda *_, **__: _answer(*packages))
    for row in pip_audit.rows(None):  # type: ignore[arg-type] # it asks no machine
        assert row.verdict is verdict
        assert words in row.measured


def test_a_database_out_of_reach_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Completed(1, "", "requests.exceptions.ConnectionError: no route")
    monkeypatch.setattr(pip_audit, "run", lambda *_, **__: broken)
    for row in pip_audit.rows(None):  # type: ignore[arg-type]
        assert row.verdict is Verdict.UNTESTED
        assert "no route" in row.measured


def test_an_answer_that_is_no_answer_is_an_error() -> None:
    with pytest.raises(ApplianceError, match="no reason given"):
        pip_audit.read("{}", "")
