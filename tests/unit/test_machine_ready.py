"""Judging a machine's readiness from what its systemd says, and saying how to use it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from machine import ready, say

BLOCK = "Id={name}\nLoadState=loaded\nActiveState={state}\nResult={result}\nNRestarts={restarts}\n"


def block(name: str, state: str = "active", result: str = "success", restarts: int = 0) -> str:
    return BLOCK.format(name=name, state=state, result=result, restarts=restarts)


class Inside:
    """A machine that answers from a script."""

    def __init__(self, *blocks: str, system: str = "running") -> None:
        self.units = "\n".join(blocks)
        self.system = system

    def __call__(self, argv: list[str]) -> str:
        if argv[:2] == ["systemctl", "show"]:
            return self.units
        if argv[:2] == ["systemctl", "is-system-running"]:
            return f"{self.system}\n"
        assert argv[0] == "journalctl"
        return f"the last words of {argv[-1]}\n"


@pytest.fixture(autouse=True)
def _answering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "answers", lambda _: True)


def test_units_that_the_image_has_not_are_left_out() -> None:
    said = block("nginx.service") + "\nId=x.service\nLoadState=not-found\nActiveState=inactive\n"
    assert [unit.name for unit in ready.parse(said)] == ["nginx.service"]


def test_a_unit_under_two_names_counts_once() -> None:
    said = block("cloud-init-network.service") + "\n" + block("cloud-init-network.service")
    assert len(ready.parse(said)) == 1


def test_ready_when_all_is_active() -> None:
    ready.wait(Inside(block("cloud-final.service"), block("nginx.service")), "192.0.2.1", 1)


def test_ready_where_cloud_init_is_off() -> None:
    off = Inside(block("cloud-final.service", "inactive"), system="degraded")
    ready.wait(off, "192.0.2.1", 1)


def test_not_ready_while_cloud_init_runs() -> None:
    busy = Inside(block("cloud-final.service", "activating"))
    with pytest.raises(ApplianceError, match="not ready after"):
        ready.wait(busy, "192.0.2.1", 0.3)


def test_a_failed_unit_is_reported_at_once_with_its_last_lines() -> None:
    failed = Inside(block("nginx.service", "failed", "exit-code"))
    with pytest.raises(ApplianceError, match=r"(?s)nginx.*exit-code.*last words of nginx\.service"):
        ready.wait(failed, "192.0.2.1", 60)


def test_a_unit_that_restarts_for_ever_has_failed() -> None:
    loop = Inside(block("infinity.service", "activating", "exit-code", restarts=3))
    with pytest.raises(ApplianceError, match=r"infinity\.service failed"):
        ready.wait(loop, "192.0.2.1", 60)


def test_no_answer_at_all_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "answers", lambda _: False)
    with pytest.raises(ApplianceError, match="machine is not ready after"):
        ready.wait(Inside(block("cloud-final.service")), "192.0.2.1", 0.3)


def test_a_closed_port_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert ready.answers("127.0.0.1", 9) is False


ACCESS = say.Access(
    host="a.test",
    address="10.213.1.2",
    port=443,
    read="python3 -m machine exec -- ",
    credentials="/root/infinity-credentials.txt",
    certificate=Path("/tmp/with space/a.crt"),  # noqa: S108 - never written
    model="it's/a-model",
)


def test_pasted_curl_has_the_key_on_no_command_line() -> None:
    text = ACCESS.curl()
    assert "-K -" in text
    assert "inf-" not in text


def test_pasted_curl_survives_odd_paths_and_models() -> None:
    words = shlex.split(ACCESS.curl())
    assert words[words.index("--cacert") + 1].endswith("/with space/a.crt")
    assert words[words.index("--resolve") + 1] == "a.test:443:10.213.1.2"
    assert words[-1] == '{"model": "it\'s/a-model", "input": ["hello"]}'


def test_url_names_the_port_only_when_it_must() -> None:
    assert ACCESS.url == "https://a.test/"


def test_a_stand_in_model_is_said_to_be_one() -> None:
    assert say.stand_in("BAAI/bge-small-en-v1.5") == ""
    assert "BAAI/bge-small-en-v1.5" in say.stand_in("other/model")
