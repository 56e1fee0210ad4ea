"""Packer: its templates say what they must, and it is run, stopped and waited for properly."""

from __future__ import annotations

import json
import os
import signal
import stat
import tarfile
import threading
from pathlib import Path
from typing import Any

import hcl2
import pytest

from appliance.ami import bake, preconditions
from appliance.ami.plan import MARKETPLACE_ACCOUNT, REPO, Plan
from appliance.errors import ApplianceError
from appliance.run import run

PACKER = REPO / "packer"


def _plain(value: Any) -> Any:  # noqa: ANN401 - what HCL holds
    """Without the quotes and marks that hcl2 keeps."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items() if key != "__is_block__"}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.strip('"') if isinstance(value, str) else value


def template(name: str) -> dict[str, Any]:
    with (PACKER / name).open() as file:
        parsed: dict[str, Any] = _plain(hcl2.load(file))
    return parsed


def test_packer_here_accepts_all_but_what_only_current_ones_know(tmp_path: Path) -> None:
    (tmp_path / "infinity.tar.gz").touch()
    words = ["-var", f"tarball={tmp_path}/infinity.tar.gz", "-var", "endpoint=http://127.0.0.1:1"]
    run(["packer", "validate", *words, PACKER / "packer-1.6"], env={
        "PATH": os.environ["PATH"], "HOME": str(tmp_path),
        "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"})  # fmt: skip


def test_old_and_current_packer_provision_alike_from_one_source() -> None:
    assert (PACKER / "packer-1.6/ami.pkr.hcl").resolve() == PACKER / "ami.pkr.hcl"
    (old,) = template("packer-1.6/build.pkr.hcl")["build"]
    (current,) = template("build.pkr.hcl")["build"]
    assert old["provisioner"] == current["provisioner"]
    assert old["post-processor"] == current["post-processor"]


def test_the_source_is_as_the_listing_needs_it() -> None:
    (source,) = template("ami.pkr.hcl")["source"]
    settings = source["amazon-ebs"]["infinity"]
    (disk,) = settings["launch_block_device_mappings"]
    assert settings["instance_type"] == "m5.large"
    assert (disk["volume_type"], disk["volume_size"], disk["encrypted"]) == ("gp3", 20, False)
    assert settings["encrypt_boot"] is False
    assert settings["ena_support"] is True
    assert settings["temporary_key_pair_type"] == "ed25519"
    assert settings["ssh_clear_authorized_keys"] is True
    assert str(settings["ami_description"]).isascii()
    for shared in ("ami_users", "snapshot_users"):
        assert "var.marketplace_account" in str(settings[shared])
    assert MARKETPLACE_ACCOUNT in (PACKER / "ami.pkr.hcl").read_text()


def test_current_packer_demands_imdsv2_of_the_image_and_of_the_instance_that_builds_it() -> None:
    text = (PACKER / "build.pkr.hcl").read_text()
    assert 'imds_support = "v2.0"' in text
    assert 'http_tokens                 = "required"' in text


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    head = run(["git", "-c", "safe.directory=*", "-C", REPO, "rev-parse", "HEAD"]).stdout.strip()
    return Plan("1.2.3", head, "us-east-1", "203.0.113.7/32", "b1", tmp_path / "out", timeout=60)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program ``packer`` on the path; the test writes what its ``build`` does."""
    program = tmp_path / "bin/packer"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def script(program: Path, build: str) -> None:
    program.write_text(
        f'#!/bin/bash\nif [ "$1" = version ]; then echo "Packer v1.6.6"; exit; fi\n{build}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


MANIFEST = json.dumps({"builds": [{"artifact_id": "eu-west-1:ami-9,us-east-1:ami-1"}]})


def test_the_ami_of_the_region_is_read_from_packers_manifest(fake: Path, plan: Plan) -> None:
    plan.out.mkdir()
    script(fake, f"echo working; echo '{MANIFEST}' >{plan.out}/packer-manifest.json")
    assert bake.bake(plan) == "ami-1"
    assert (plan.out / "packer-build.log").read_text() == "working\n"


def test_packer_gets_the_commit_as_a_tarball(fake: Path, plan: Plan) -> None:
    plan.out.mkdir()
    script(fake, f"echo '{MANIFEST}' >{plan.out}/packer-manifest.json")
    bake.bake(plan)
    with tarfile.open(plan.out / "infinity.tar.gz") as tarball:
        assert {"packer/provision.sh", "packer/clean.sh"} <= set(tarball.getnames())
    variables = json.loads((plan.out / "variables.pkrvars.json").read_text())
    assert (variables["commit"], variables["build_id"]) == (plan.commit, "b1")


def test_a_packer_that_fails_is_an_error_with_its_log(fake: Path, plan: Plan) -> None:
    script(fake, "echo 'Error: no subnet'; exit 3")
    with pytest.raises(ApplianceError, match="status 3") as caught:
        bake.bake(plan)
    assert "packer-build.log" in caught.value.hint


# What Packer does at an interrupt: it cleans up, which takes a moment, and ends with 1.
CLEANS_UP = """
trap 'sleep 0.3; echo cleaned; exit 1' INT
echo started; touch {started}
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_until_packer_has_cleaned_up(
    fake: Path, plan: Plan, tmp_path: Path, number: signal.Signals
) -> None:
    started = tmp_path / "started"
    script(fake, CLEANS_UP.format(started=started))

    def interrupt() -> None:
        while not started.exists():
            threading.Event().wait(0.02)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        bake.bake(plan)
    assert (plan.out / "packer-build.log").read_text().splitlines()[-1] == "cleaned"


def test_a_packer_that_takes_too_long_is_interrupted_and_waited_for(
    fake: Path, plan: Plan, tmp_path: Path
) -> None:
    script(fake, CLEANS_UP.format(started=tmp_path / "started"))
    hasty = Plan(**{**vars(plan), "timeout": 1.0})
    with pytest.raises(ApplianceError, match="did not finish within 1 s"):
        bake.bake(hasty)
    assert (plan.out / "packer-build.log").read_text().splitlines()[-1] == "cleaned"


def test_a_missing_or_ancient_packer_is_named(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(fake, "")
    fake.write_text(fake.read_text().replace("1.6.6", "1.5.4"))
    with pytest.raises(ApplianceError, match="too old"):
        preconditions.packer_version()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ApplianceError, match="not installed"):
        preconditions.packer_version()
