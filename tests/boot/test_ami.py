"""`make ami` as the README has it: a real Packer provisions a machine over SSH into an AMI.

EC2 is moto's server with local machines for instances (ec2_stand_in.py). The short form starts
from an instance that has the packages and the Python environments already; `make test-ami`
starts from one that has the distribution's packages only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ec2_stand_in
import pytest
from ec2_stand_in import Hardware

from appliance.ami import check
from appliance.run import run
from machine import build, cache, layers, model, steps, wheels
from machine.build import Image
from machine.layers import Stack
from tests.unit import moto_support

pytestmark = pytest.mark.boot

FULL = os.environ.get("AMI_REHEARSAL") == "full"
READY_ALREADY = ("packages",) if FULL else ("packages", "python", "sbom")
PHASES = " ".join(
    phase.stem
    for phase in sorted(steps.PHASES.glob("*.sh"))
    if phase.stem.partition("-")[2] not in READY_ALREADY
)
INPUTS = Path("srv/build-inputs")
# What Canonical's image has and our layers below it have not: the user of the launch key.
USER = """\
system_info:
  default_user:
    name: ubuntu
    lock_passwd: true
    shell: /bin/bash
    sudo: ["ALL=(ALL) NOPASSWD:ALL"]
"""


@dataclass(frozen=True)
class Made:
    """A finished `make ami`."""

    output: str
    repo: Path
    hardware: Hardware
    left: dict[str, list[str]]
    log: str

    @property
    def disk(self) -> Image:
        (disk,) = self.hardware.disks.values()
        return disk

    @property
    def folder(self) -> Path:
        (folder,) = (self.repo / "build/ami").iterdir()
        return folder


def checkout(folder: Path) -> Path:
    """This working tree as a commit of its own."""
    names = ("appliance", "firstboot", "templates", "systemd", "nginx", "packer", "machine",
             "docs", "Makefile", "pyproject.toml", "CHANGELOG.md", "README.md")  # fmt: skip
    folder.mkdir()
    for name in names:
        source = cache.REPO / name
        if source.is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, symlinks=True, ignore=skip)
        else:
            shutil.copy2(source, folder / name)
    git = ("git", "-C", folder, "-c", "user.name=test", "-c", "user.email=test@example.test")
    (folder / ".gitignore").write_text("build/\n__pycache__/\n")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "test"]):
        run([*git, *words])
    return folder


def inputs(folder: Path, python: str) -> tuple[Path, dict[str, str]]:
    """A layer with what a machine cannot download, and what tells Packer of it."""
    layer = folder / "inputs"
    there = layer / INPUTS
    (there / "wheels").mkdir(parents=True)
    hub = model.model()
    run(["cp", "--archive", hub.hub, there / "hub"], timeout=None)
    torch = wheels.torch(python)
    if FULL:
        for name in ("server", "appliance", "sbom"):
            run(["cp", "--archive", wheels.locked(name, python), there / "wheels" / name])
        run(["cp", "--archive", torch, there / "wheels/torch"])
    configuration = layer / "etc/cloud/cloud.cfg.d/10-ubuntu.cfg"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(USER)
    environment = [
        f"WHEELHOUSE=/{INPUTS}/wheels",
        f"TORCH_VERSION={wheels.torch_version(torch)}",
        f"MODEL_MANIFEST={hub.manifest.name}",
        f"MODEL_FILES=/{INPUTS}/hub/{hub.files.relative_to(hub.hub)}",
    ]
    return layer, {"PKR_VAR_phases": PHASES, "PKR_VAR_environment": json.dumps(environment)}


def readme(checkout: Path) -> str:
    """The commands of "Build your own AMI", with a reader's own values filled in."""
    section = (checkout / "README.md").read_text().partition("## Build your own AMI")[2]
    found = re.search(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found
    return found[1].replace("<your-address>", "203.0.113.7")


@dataclass(frozen=True)
class Account:
    """An AWS account that a reader's profile leads to, and the reader's checkout."""

    hardware: Hardware
    repo: Path

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-euc", readme(self.repo)], cwd=self.repo, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip


@contextmanager
def account(folder: Path) -> Iterator[Account]:
    whole = build.build()
    layer, variables = inputs(folder, build.PYTHONS[whole.suite])
    below = whole.layers[: 1 + len(READY_ALREADY)]
    assert [path.parent.name.rpartition("-")[0] for path in below[1:]] == list(READY_ALREADY)
    source = Image((*below, layer), "source", whole.suite, whole.model)
    profile = folder / "credentials"
    profile.write_text("[my-profile]\naws_access_key_id = x\naws_secret_access_key = x\n")
    hardware = Hardware(source, (layer,), folder / "disks")
    hardware.folder.mkdir()
    with pytest.MonkeyPatch.context() as patch, moto_support.moto_ec2(patch):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            patch.delenv(name)
        for name, value in {
            **variables,
            "AWS_SHARED_CREDENTIALS_FILE": str(profile),
            "PYTHON": sys.executable,
        }.items():
            patch.setenv(name, value)
        with ec2_stand_in.attached(hardware, patch):
            yield Account(hardware, checkout(folder / "repo"))


def everything(folder: Path) -> dict[str, list[str]]:
    """What the account has, asked with the reader's profile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
        patch.setenv("AWS_PROFILE", "my-profile")
        return moto_support.everything()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, machine_host: None) -> Iterator[Made]:  # noqa: ARG001
    """What the README says, once."""
    folder = tmp_path_factory.mktemp("ami")
    with account(folder) as here:
        process = here.start()
        output, _ = process.communicate(timeout=1500)
        assert process.returncode == 0, output[-6000:]
        (log,) = here.repo.glob("build/ami/*/packer-build.log")
        yield Made(output, here.repo, here.hardware, everything(folder), log.read_text())


@pytest.fixture(scope="module")
def root(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The AMI's disk, mounted as nobody has booted it."""
    folder = tmp_path_factory.mktemp("disk")
    for name in ("root", "work", "merged"):
        (folder / name).mkdir()
    options = layers.mount_options(Stack("", made.disk.layers), folder)
    run(["mount", "-t", "overlay", "test-ami", "-o", options, folder / "merged"])
    try:
        yield folder / "merged"
    finally:
        run(["umount", folder / "merged"])


def test_packer_provisions_over_ssh_to_an_ami(made: Made) -> None:
    assert "Connected to SSH!" in made.log
    assert "provision: 40-appliance done" in made.log
    assert "rules, no finding" in made.log
    assert "AMIs were created" in made.log


def test_the_vector_that_is_known_is_checked_before_the_ami_is_made(made: Made) -> None:
    golden = made.log.index("golden: ")
    assert made.log.index("provision: 40-appliance done") < golden < made.log.index("no finding")


def test_the_amis_disk_passes_the_scanner_after_the_power_off(root: Path) -> None:
    assert check.check(root) == []


def test_a_new_instance_of_the_ami_serves_an_embedding_and_the_guide_holds(made: Made) -> None:
    for step in ("step-2-1", "step-3-1", "step-4-1", "step-5-1", "step-6-1", "step-11-1"):
        assert f"  {step}\n" in made.output


def test_nothing_but_the_ami_is_left(made: Made) -> None:
    assert set(made.left) == {"images", "snapshots"}
    assert len(made.left["images"]) == 1
    assert made.hardware.machines == {}


def test_the_records_lie_beside(made: Made, root: Path) -> None:
    for name in ("manifest.json", "sbom/server.cdx.json", "sbom/system.cdx.json"):
        beside = made.folder / Path(name).name
        assert beside.read_text() == (root / "usr/share/infinity" / name).read_text()
    ami = json.loads((made.folder / "ami.json").read_text())
    manifest = json.loads((made.folder / "manifest.json").read_text())
    assert ami["commit"] == manifest["commit"]
    assert [ami["image"]] == made.left["images"]


def test_the_build_of_the_ami_ends_as_the_local_image_does(made: Made, root: Path) -> None:
    """One provisioning: the same packages, environments and model by either way."""
    local = json.loads(
        next((path / "usr/share/infinity/manifest.json") for path in reversed(build.build().layers)
             if (path / "usr/share/infinity/manifest.json").is_file()).read_text())  # fmt: skip
    ours = json.loads((root / "usr/share/infinity/manifest.json").read_text())
    assert {**ours, "commit": ""} == {**local, "commit": ""}
    assert made.disk.suite in build.PYTHONS


def test_ctrl_c_while_packer_provisions_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    machine_host: None,  # noqa: ARG001
) -> None:
    folder = tmp_path_factory.mktemp("interrupted")
    with account(folder) as here:
        process = here.start()
        assert process.stdout
        said = []
        for line in process.stdout:
            said.append(line)
            if "Connected to SSH!" in line:
                assert len(here.hardware.machines) == 1
                os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(timeout=120) != 0
        assert "Connected to SSH!" in "".join(said)
        assert everything(folder) == {}
        assert here.hardware.machines == {}
        assert here.hardware.disks == {}
