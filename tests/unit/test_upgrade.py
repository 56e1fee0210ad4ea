"""Another version of the server: a copy that works where it is, and when it is not taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from firstboot_support import Disk

from appliance import ask, units, upgrade
from appliance.activate import undo
from appliance.ask import Answered
from appliance.errors import ApplianceError
from appliance.run import run

DONE = "mv infinity_emb-0.0.77.dist-info infinity_emb-0.0.78.dist-info"
PACKAGES = "lib/python3.11/site-packages"


@pytest.fixture
def instance(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Disk:
    """After first boot, with an environment that has a script and two packages."""
    disk.boot()
    venv = disk.paths.venvs / "image"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/pip").write_text(f"#!{venv}/bin/python\n")
    (venv / "bin/pip").chmod(0o755)
    (venv / "bin/python").symlink_to("/usr/bin/python3")
    package(venv, "infinity_emb", "0.0.77")
    package(venv, "torch", "2.14.1+cpu")
    disk.paths.venv.symlink_to("venvs/image")
    monkeypatch.setattr(units, "restart", lambda _unit, **_: None)
    monkeypatch.setattr(ask, "everything", lambda _port: [])
    return disk


def package(venv: Path, name: str, version: str) -> None:
    (venv / PACKAGES / f"{name}-{version}.dist-info").mkdir(parents=True)


def pip(venv: Path, text: str) -> None:
    """The environment's Python is a script."""
    (venv / "bin/python").unlink()
    (venv / "bin/python").write_text(f"#!/bin/sh\ncd {venv / PACKAGES}\n{text}\n")
    (venv / "bin/python").chmod(0o755)


def test_the_copy_is_at_home_in_its_own_folder(instance: Disk) -> None:
    new = upgrade.copied("0.0.78-1", instance.paths)
    assert (new / "bin/pip").read_text() == f"#!{new}/bin/python\n"
    assert (instance.paths.venv / "bin/pip").read_text().startswith(f"#!{instance.paths.venvs}")
    assert upgrade.installed(new) == {"infinity-emb": "0.0.77", "torch": "2.14.1+cpu"}
    assert os.access(new / "bin/pip", os.X_OK)


def test_there_and_back(instance: Disk) -> None:
    paths = instance.paths
    new = upgrade.copied("0.0.78-1", paths)
    upgrade.switch(new, instance.gate)
    assert paths.venv.resolve() == new
    assert upgrade.previous(paths) == paths.venvs / "image"
    upgrade.switch(upgrade.previous(paths), instance.gate)
    assert paths.venv.resolve() == paths.venvs / "image"
    assert upgrade.previous(paths) == new
    upgrade.sweep(paths)
    assert len(list(paths.venvs.iterdir())) == 2


def test_a_version_that_does_not_start_leaves_the_links_alone(
    instance: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ApplianceError("It did not start.", "Look.")

    new = upgrade.copied("0.0.78-1", instance.paths)
    monkeypatch.setattr(units, "restart", fail)
    with pytest.raises(ApplianceError, match="Nothing was changed"):
        upgrade.switch(new, instance.gate)
    assert os.readlink(instance.paths.venv) == "venvs/image"
    with pytest.raises(ApplianceError, match="no version to go back to"):
        upgrade.previous(instance.paths)
    upgrade.sweep(instance.paths)
    assert [path.name for path in instance.paths.venvs.iterdir()] == ["image"]


def test_what_a_killed_switch_still_needs_is_not_swept(
    instance: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = instance.paths
    new = upgrade.copied("0.0.78-1", paths)

    def killed(_unit: str, **_: object) -> None:
        os._exit(0)

    child = os.fork()
    if child == 0:
        monkeypatch.setattr(units, "restart", killed)
        upgrade.switch(new, instance.gate)
    os.waitpid(child, 0)
    assert paths.venv.resolve() == new, "the kill has to have struck in the middle"
    upgrade.sweep(paths)
    assert undo(instance.gate)
    assert os.readlink(paths.venv) == "venvs/image"
    assert paths.venv.exists()


@pytest.mark.parametrize(
    ("did", "said"),
    [
        (DONE, None),
        ("true", "0.0.77"),
        ("mv infinity_emb-0.0.77.dist-info infinity_emb-0.0.79.dist-info", "0.0.79"),
        (f"{DONE}; mv torch-2.14.1+cpu.dist-info torch-2.14.1.dist-info", "torch 2.14.1"),
        (f"{DONE}; mkdir nvidia_cublas_cu12-1.dist-info", "nvidia"),
        ("echo No matching distribution >&2; exit 1", "No matching distribution"),
    ],
    ids=["done", "not done", "another version", "another torch", "a GPU's packages", "refused"],
)
def test_what_pip_made_is_looked_at(instance: Disk, did: str, said: str | None) -> None:
    new = upgrade.copied("0.0.78-1", instance.paths)
    pip(new, did)
    if said is None:
        upgrade.install("0.0.78", new, [])
        return
    with pytest.raises(ApplianceError, match=said) as raised:
        upgrade.install("0.0.78", new, [])
    assert raised.value.hint


def test_a_full_disk_is_noticed_before_anything_is_copied(
    instance: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "SPARE", 2**60)
    with pytest.raises(ApplianceError, match="free"):
        upgrade.copied("0.0.78-1", instance.paths)
    assert [path.name for path in instance.paths.venvs.iterdir()] == ["image"]


OLD = [Answered("m", "embed", ((1.0, 0.0), (0.0, 1.0))), Answered("m", "rerank", ((0.2, 0.9),))]


@pytest.mark.parametrize(
    "new",
    [
        [Answered("m", "embed", ((1.0, 0.0), (0.1, 1.0))), OLD[1]],
        [Answered("m", "embed", ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))), OLD[1]],
        [OLD[0], Answered("m", "rerank", ((0.2, 0.8),))],
        [OLD[0]],
        [OLD[0], Answered("n", "rerank", ((0.2, 0.9),))],
    ],
    ids=["another direction", "another size", "another score", "a task less", "another name"],
)
def test_a_version_that_answers_otherwise_is_refused(new: list[Answered]) -> None:
    with pytest.raises(ApplianceError, match="new version"):
        upgrade.compare(OLD, new)


def test_rounding_is_no_other_answer() -> None:
    near = [Answered("m", "embed", ((1.0, 1e-4), (1e-4, 1.0))), OLD[1]]
    upgrade.compare(OLD, near)
    upgrade.compare(OLD, OLD)


@pytest.mark.parametrize("given", ["", "0.0.77;x", "../x", "0.0.77 x", "latest", "0.0.77\n", "-1"])
def test_what_is_no_version_is_none(given: str) -> None:
    assert not upgrade.VERSION.fullmatch(given)


def test_versions_are_versions() -> None:
    for given in ("0.0.77", "1.0rc1", "1.2.3.post1", "2", "0.1.dev3"):
        assert upgrade.VERSION.fullmatch(given)


def test_the_copys_own_pip_works(tmp_path: Path) -> None:
    paths = Disk.fresh(tmp_path / "root").paths
    image = paths.venvs / "image"
    run(["/usr/bin/env", "python3", "-m", "venv", image], timeout=120)
    paths.venv.symlink_to("venvs/image")
    new = upgrade.copied("1", paths)
    told = run([new / "bin/pip", "--version"]).stdout
    assert str(new) in told
