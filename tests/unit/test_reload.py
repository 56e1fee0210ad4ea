"""After a reload nobody is answered by what nginx had before."""

from __future__ import annotations

import socket
import ssl

import pytest
from gate_harness import Gate as RunningGate
from gate_harness import nginx_program

from appliance import gate as gate_module
from appliance import units
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.paths import Paths

KEY_MAP = '"Bearer {}" 1;\n'
OLD, NEW = "inf-old", "inf-new"


def gate_of(running: RunningGate) -> Gate:
    return Gate(Paths(running.root), nginx_program())


def status(running: RunningGate, key: str) -> int:
    return running.get("/models", ("Authorization", f"Bearer {key}")).status


def test_every_answer_after_a_reload_is_by_the_new_files(own_gate: RunningGate) -> None:
    gate = gate_of(own_gate)
    for old, new in ((OLD, NEW), (NEW, OLD), (OLD, NEW)):
        gate.paths.api_key_map.write_text(KEY_MAP.format(new))
        gate.reload()
        assert [status(own_gate, old) for _ in range(8)] == [401] * 8
        assert [status(own_gate, new) for _ in range(8)] == [200] * 8


def test_a_reload_does_not_wait_for_a_connection_that_stays(own_gate: RunningGate) -> None:
    gate = gate_of(own_gate)
    gate.reload()
    with own_gate.connect() as connection:
        # Half a request: its worker lives on, and accepts no others.
        connection.sendall(b"GET /models HTTP/1.1\r\nHost: ")
        gate.reload()
        connection.settimeout(0)
        with pytest.raises(ssl.SSLWantReadError):  # open, and nothing to read
            connection.recv(1)


def test_nginx_is_told_once_it_has_workers(
    own_gate: RunningGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A master that has only begun to listen would forget the signal."""
    while_it_starts: list[set[int]] = [set(), set()]
    workers, tell = Gate._workers, Gate.tell

    def told(gate: Gate) -> None:
        assert while_it_starts == []
        tell(gate)

    monkeypatch.setattr(
        Gate, "_workers", lambda gate: while_it_starts.pop() if while_it_starts else workers(gate)
    )
    monkeypatch.setattr(Gate, "tell", told)
    gate_of(own_gate).reload()


def test_a_reload_that_nginx_refuses_is_told(
    own_gate: RunningGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_module, "RELOAD_PATIENCE", 0.5)
    site = own_gate.etc / "infinity-site.conf"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        site.write_text(site.read_text() + f"server {{ listen 127.0.0.1:{port}; }}\n")
        with pytest.raises(ApplianceError, match="did not take its new configuration"):
            gate_of(own_gate).reload()


def test_an_nginx_that_is_not_there_is_one_sentence(own_gate: RunningGate) -> None:
    (own_gate.root / "run/nginx.pid").unlink()
    with pytest.raises(ApplianceError, match="cannot be found"):
        gate_of(own_gate).reload()


def test_a_start_that_is_being_checked_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(["start-pre", "start-post", "running"])
    monkeypatch.setattr(units, "show", lambda *_: {"SubState": next(states)})
    assert Gate(Paths()).running(), "it has read its files, and would not read the new ones"
    assert next(states, None) is None


@pytest.mark.parametrize("state", ["dead", "failed", "auto-restart", "stop-sigterm"])
def test_an_nginx_that_does_not_serve_is_not_reloaded(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(units, "show", lambda *_: {"SubState": state})
    assert not Gate(Paths()).running()


def test_no_refusal_by_nginx_quotes_a_key(own_gate: RunningGate) -> None:
    gate = gate_of(own_gate)
    gate.paths.api_key_map.write_text(KEY_MAP.format(OLD) * 2)
    with pytest.raises(ApplianceError, match="conflicting") as caught:
        gate.test()
    assert OLD not in str(caught.value)
