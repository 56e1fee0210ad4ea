"""infinity.env read and written as systemd does, and a trial in the sandbox of the service."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance import ask, server_env, trial, units
from appliance.ask import Answered
from appliance.errors import ApplianceError
from appliance.run import Completed

CAT = """# /lib/systemd/system/infinity.service
[Unit]
Requires=infinity-model.service

[Service]
ExecStart=/opt/infinity/venv/bin/python -I -m appliance.serving.server
ProtectSystem=strict
ExecStopPost=/bin/sh -c 'a; \\
[Unit] is no section here; \\
b'

[Install]
WantedBy=multi-user.target

# /etc/systemd/system/infinity.service.d/own.conf
[Service]
MemoryMax=2G
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where transient units are written, beside a systemctl that says yes to everything."""

    def run(argv: list[str], **_: object) -> Completed:
        return Completed(0, CAT if "cat" in argv else "", "")

    monkeypatch.setattr(units, "TRANSIENT", tmp_path)
    monkeypatch.setattr(units, "run", run)
    return tmp_path


def test_the_last_line_of_a_name_counts_and_only_it_changes() -> None:
    text = "# MODEL=comment\nMODEL=a/b\n;MODEL=off\nX='quoted'\nMODEL=c/d\nbroken\n"
    assert server_env.values(text) == {"MODEL": "c/d", "X": "quoted"}
    changed = server_env.updated(text, {"MODEL": "e/f", "NEW": "1"})
    assert changed == text.replace("MODEL=c/d", "MODEL=e/f") + "NEW=1\n"
    assert server_env.values(changed) == {"MODEL": "e/f", "X": "quoted", "NEW": "1"}


def test_a_trial_has_the_services_sandbox_with_what_the_operator_added(systemd: Path) -> None:
    units.copy("infinity.service", "infinity-trial", ["Restart=no"], {"HF_TOKEN": "hf_secret"})
    text = (systemd / "infinity-trial.service").read_text()
    lines = text.splitlines()
    assert {"ProtectSystem=strict", "MemoryMax=2G"} <= {*lines}
    assert lines.index("Restart=no") > lines.index("MemoryMax=2G"), "what comes last counts"
    assert not {"Requires=infinity-model.service", "WantedBy=multi-user.target"} & {*lines}
    assert "[Unit] is no section here; \\" in lines
    assert "hf_secret" not in text
    env = systemd / "infinity-trial.env"
    assert (env.read_text(), env.stat().st_mode & 0o777) == ("HF_TOKEN=hf_secret\n", 0o600)
    units.discard("infinity-trial")
    assert list(systemd.iterdir()) == []


def test_a_trial_that_fails_leaves_no_unit(systemd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_unit: str, _watch: object) -> None:
        raise ApplianceError("It did not load.", "Choose another.")

    monkeypatch.setattr(units, "start", fail)
    with pytest.raises(ApplianceError, match="did not load"), trial.server({"MODEL": "a/b"}):
        pytest.fail("there is no server")
    assert list(systemd.iterdir()) == []


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        ("embed", {"data": [{"index": 0, "embedding": [0.0, 0.0]}]}),
        ("embed", {"data": [{"index": 0, "embedding": [float("nan")]}]}),
        ("embed", {"data": [{"index": 0, "embedding": "AAAA"}]}),
        ("rerank", {"results": [{"index": 0}]}),
        ("classify", {"data": []}),
        ("rerank", {}),
    ],
)
def test_an_answer_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, task: str, answer: object
) -> None:
    models = {"data": [{"id": "m", "capabilities": [task]}]}
    monkeypatch.setattr(
        ask, "_request", lambda _port, _method, path, *_: models if path == "/models" else answer
    )
    with pytest.raises(ApplianceError, match="m gave"):
        ask.everything(1)


def test_models_are_told_with_all_they_can_do() -> None:
    answers = [
        Answered("a", "embed", ()),
        Answered("b", "rerank", ()),
        Answered("a", "classify", ()),
    ]
    assert ask.told(answers) == ["a (embed, classify)", "b (rerank)"]


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(ApplianceError, match="gave no answer"):
        ask.everything(trial.free_port())
