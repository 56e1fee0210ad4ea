from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from appliance.run import Completed
from machine import build, cache, layers, steps
from machine.layers import Stack, Step


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INFINITY_APPLIANCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the image is made of, free to be changed."""
    copy = tmp_path / "checkout"
    for name in ("appliance", "firstboot", "templates", "systemd", "nginx", "packer"):
        shutil.copytree(cache.REPO / name, copy / name)
    monkeypatch.setattr(cache, "REPO", copy)
    monkeypatch.setattr(steps, "PACKER", copy / "packer")
    monkeypatch.setattr(steps, "PHASES", copy / "packer/provision.d")
    monkeypatch.setattr(steps, "PROVISION", copy / "packer/provision.sh")
    return copy


@pytest.mark.parametrize(
    ("changed", "rebuilds_packages", "rebuilds_appliance"),
    [
        ("appliance/errors.py", False, True),
        ("nginx/nginx.conf", False, True),
        ("templates/new.j2", False, True),
        ("packer/clean.sh", False, True),
        ("packer/files/etc/default/locale", False, True),
        ("packer/provision.d/40-appliance.sh", False, True),
        ("packer/provision.d/10-packages.sh", True, False),
        ("packer/provision.sh", True, True),
        ("packer/infinity.env", False, False),
    ],
)
def test_a_change_rebuilds_the_layers_that_depend_on_it(
    checkout: Path, changed: str, *, rebuilds_packages: bool, rebuilds_appliance: bool
) -> None:
    packages = steps.packages_step("bookworm").inputs
    appliance = steps.appliance_step().inputs
    with (checkout / changed).open("a") as file:
        file.write("# changed\n")
    assert (steps.packages_step("bookworm").inputs != packages) is rebuilds_packages
    assert (steps.appliance_step().inputs != appliance) is rebuilds_appliance


def fill(into: Path) -> None:
    (into / "root").mkdir()


def test_a_layer_is_rebuilt_with_the_layers_below_it_and_not_with_those_above() -> None:
    low = layers.put(Stack(""), "low", ("1",), fill)
    other_low = layers.put(Stack(""), "low", ("2",), fill)
    high = layers.put(low, "high", ("1",), fill)
    other_high = layers.put(low, "high", ("2",), fill)
    assert layers.put(other_low, "high", ("1",), fill).key != high.key
    assert other_high.layers[0] == high.layers[0] == low.layers[0]
    assert other_high.layers[1] != high.layers[1]
    assert layers.put(low, "high", ("1",), fill) == high


def test_the_uppermost_layer_comes_first_for_overlayfs(tmp_path: Path) -> None:
    stack = Stack("key", (Path("/base"), Path("/packages"), Path("/python")))
    options = layers.mount_options(stack, tmp_path).split(",")
    assert options[0] == "lowerdir=/python:/packages:/base"
    assert f"upperdir={tmp_path}/root" in options


def test_a_failed_step_leaves_no_layer_and_says_where_its_output_is(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(argv: list[str | Path], **_: object) -> Completed:
        if "systemd-nspawn" in argv:
            (own_cache / "logs/python.log").write_text("Downloading\nno space left on device\n\n")
            return Completed(1, "", "")
        return Completed(0, "", "")

    monkeypatch.setattr(layers, "run", run)
    step = Step("python", ("1",), (("install",),))
    with pytest.raises(ApplianceError, match="status 1: no space left on device") as caught:
        layers.add(Stack("key", (Path("/base"),)), step)
    assert "logs/python.log" in caught.value.hint
    assert list((own_cache / "layers").iterdir()) == []


def test_the_build_runs_without_the_hosts_environment_and_sees_the_checkout_read_only(
    tmp_path: Path,
) -> None:
    step = Step(
        "step",
        (),
        (("true",),),
        environment={"WHEELHOUSE": "/run/build/wheels"},
        binds={"repo": Path("/checkout")},
    )
    words = layers._nspawn(tmp_path, step)
    assert "--bind-ro=/checkout:/run/build/repo" in words
    assert [word for word in words if word.startswith("--setenv")] == [
        "--setenv=WHEELHOUSE=/run/build/wheels"
    ]


@pytest.mark.parametrize(
    ("release", "suite"),
    [
        ({"ID": "debian", "VERSION_CODENAME": "bookworm"}, "bookworm"),
        ({"ID": "debian", "VERSION_CODENAME": "trixie"}, "trixie"),
        ({"ID": "ubuntu", "VERSION_CODENAME": "noble"}, "noble"),
        ({"ID": "ubuntu", "VERSION_CODENAME": "plucky"}, "noble"),
        ({"ID": "debian"}, "bookworm"),
        ({"ID": "fedora"}, "bookworm"),
    ],
)
def test_the_image_follows_the_host(
    monkeypatch: pytest.MonkeyPatch, release: dict[str, str], suite: str
) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    assert build.host_suite() == suite


@pytest.mark.parametrize(
    ("suite", "machine", "uid", "tools", "words"),
    [
        ("jammy", "x86_64", 0, True, "SUITE=jammy is not supported"),
        ("bookworm", "aarch64", 0, True, "this computer is aarch64"),
        ("bookworm", "x86_64", 1000, True, "needs root"),
        ("bookworm", "x86_64", 0, False, "needs mmdebstrap systemd-container util-linux"),
    ],
)
def test_a_build_that_cannot_succeed_says_so_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, suite: str, machine: str, uid: int, words: str, *, tools: bool
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/tool" if tools else None)
    with pytest.raises(ApplianceError, match=words) as caught:
        build.check(suite)
    assert caught.value.hint
