"""Other models are served when all of them answer; otherwise everything is as it was."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from firstboot_support import CRASHED, Disk, die_before

from appliance import ask, model_switch, room, settings, units
from appliance.activate import undo
from appliance.ask import Answered
from appliance.command import UsageError
from appliance.commands import set_model
from appliance.errors import ApplianceError
from appliance.model_set import Wanted

ENV = """# a comment of the operator's
DTYPE=float32
MODEL=owner/model
INFINITY_SERVED_MODEL_NAME=
MODEL_ALIASES=text-embedding-3-small;old=owner/model
HF_TOKEN=hf_secret
"""
PAIR = Wanted(("made/a@v1", "made/b"), ("a",))
ANSWERS = [Answered("a", "embed", ((1.0,),))]


@pytest.fixture
def serving(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """An instance after first boot, whose model server starts and answers."""
    disk.paths.server_env.write_text(ENV)
    disk.boot()
    monkeypatch.setattr(units, "restart", lambda _unit, **_: None)
    monkeypatch.setattr(ask, "everything", lambda _port: ANSWERS)
    return disk


def state(disk: Disk) -> dict[str, bytes]:
    """Every file that a change of the model may write."""
    paths = (disk.paths.server_env, disk.paths.credentials, disk.paths.settings)
    return {path.name: path.read_bytes() for path in paths}


def test_env_credentials_and_settings_change_together(serving: Disk) -> None:
    assert model_switch.switch(PAIR, serving.gate) == ANSWERS
    text = serving.paths.server_env.read_text()
    assert "MODEL=made/a@v1;made/b\nINFINITY_SERVED_MODEL_NAME=a;made/b\n" in text
    assert "MODEL_ALIASES=text-embedding-3-small\n" in text, "an alias of what is gone would end it"
    assert "# a comment of the operator's\nDTYPE=float32\n" in text
    assert "HF_TOKEN=hf_secret\n" in text
    assert "INFINITY_MODEL=a\n" in serving.paths.credentials.read_text()
    assert settings.required(serving.paths).model == "a"
    serving.assert_whole()


def test_allowances_end_with_the_models_they_were_for(serving: Disk) -> None:
    risky = Wanted(("made/a",), allow_pickle=True, trust_remote_code=True)
    model_switch.switch(risky, serving.gate)
    text = serving.paths.server_env.read_text()
    assert "ALLOW_PICKLE=true\nTRUST_REMOTE_CODE=true\n" in text
    model_switch.switch(PAIR, serving.gate)
    assert "ALLOW_PICKLE=\nTRUST_REMOTE_CODE=\n" in serving.paths.server_env.read_text()


@pytest.mark.parametrize("failing", ["restart", "answer", "nginx", "disk"])
def test_a_failure_in_the_middle_puts_everything_back(
    serving: Disk, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    before = state(serving)

    def fail(*_: object, **__: object) -> None:
        raise ApplianceError("It failed.", "Do something.")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if failing == "nginx":
        (serving.paths.nginx / "infinity/http.conf").write_text("broken;\n")
    elif failing == "disk":
        monkeypatch.setattr(os, "fsync", full)
    else:
        broken = {"restart": (units, "restart"), "answer": (ask, "everything")}[failing]
        monkeypatch.setattr(*broken, fail)
    with pytest.raises(ApplianceError, match="Nothing was changed") as raised:
        model_switch.switch(PAIR, serving.gate)
    assert raised.value.hint
    monkeypatch.undo()
    assert state(serving) == before
    assert not list(serving.paths.root.rglob(".*.before"))


def test_a_switch_that_is_killed_anywhere_is_taken_back(serving: Disk) -> None:
    before, effect = state(serving), 0
    while killed(lambda: model_switch.switch(PAIR, serving.gate), effect):
        undone = undo(serving.gate)
        assert undone or state(serving) == before or switched(serving)
        if not switched(serving):
            assert state(serving) == before
        effect += 1
    assert effect > 5, "the kill has to have struck"
    assert switched(serving)


def switched(disk: Disk) -> bool:
    return b"made/a" in state(disk)["infinity.env"]


def killed(act: Callable[[], object], effect: int) -> bool:
    """Run it in a child that dies before its ``effect``-th change of the disk."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            die_before(effect)
            act()
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in {0, CRASHED}
    return status == CRASHED


@pytest.mark.parametrize(
    "given",
    [
        *("../x", "a/../b", "a;b", "a/b\nMODEL=c/d", "a b", "--opt", "", "a/b/c", "é/x"),
        *("a--b/c", "a/b@", "a/b@../x", "a/b@x;y", "a/b@/etc", "$(id)", "a'b", 'a"b', "a\\b"),
        "a/" + "b" * 300,
    ],
)
def test_what_is_no_model_id_is_wrong_use(given: str) -> None:
    with pytest.raises(UsageError):
        set_model.check(Wanted((given,)))


@pytest.mark.parametrize("name", ["a;b", "a\nb", "", " ", "-x", "a b", "$x", '"', "#x", "x" * 200])
def test_what_is_no_served_name_is_wrong_use(name: str) -> None:
    with pytest.raises(UsageError):
        set_model.check(Wanted(("made/a",), (name,)))


@pytest.mark.parametrize(
    ("ids", "served"),
    [
        (("made/a",), ("x", "y")),
        (("made/a", "made/a"), ()),
        (("made/a", "made/b"), ("made/b",)),
        (tuple(f"made/{number}" for number in range(17)), ()),
    ],
    ids=["more names than models", "one model twice", "one name twice", "too many"],
)
def test_sets_that_cannot_be_served_are_wrong_use(
    ids: tuple[str, ...], served: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError):
        set_model.check(Wanted(ids, served))


def test_missing_models_are_named_and_not_looked_for_offline(serving: Disk) -> None:
    with pytest.raises(ApplianceError, match="made/a, made/b") as raised:
        model_switch.ensure_cached(PAIR, serving.paths, print, offline=True)
    assert "infinity-model import" in raised.value.hint


def test_models_that_memory_does_not_hold_are_refused_before_they_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "limit", lambda: 1000)
    monkeypatch.setattr(room, "available", lambda: 500)
    with pytest.raises(ApplianceError, match="memory"):
        room.check(1001)
    assert not room.check(900), "alone, but not beside another"
    assert room.check(400)


def test_a_models_memory_is_counted_in_float32_whatever_its_file_says(
    disk: Disk,
) -> None:
    header = b'{"__metadata__":{},"w":{"dtype":"F16","shape":[10,1000],"data_offsets":[0,20000]}}'
    for name, data in (("a", len(header).to_bytes(8, "little") + header), ("b", b"broken" * 9)):
        folder = disk.paths.root / name
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(data)
    base = room.needed([])
    assert room.needed([disk.paths.root / "a"]) == base + int(room.PACKED * 40000)
    assert room.needed([disk.paths.root / "b"]) > base
