"""The image as it is built: it passes its own scanner, and says what it is made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.ami import check, rules_logins, sshd
from appliance.ami.tree import Tree
from appliance.run import run
from machine import build, cache, layers
from machine.layers import Stack

pytestmark = pytest.mark.boot

SBOMS = ("server", "appliance", "system")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, machine_host: None) -> Iterator[Path]:  # noqa: ARG001
    """The built image's root filesystem, mounted; what a test writes there is not kept."""
    folder = tmp_path_factory.mktemp("image")
    for name in ("root", "work", "merged"):
        (folder / name).mkdir()
    image = build.build()
    options = layers.mount_options(Stack(image.key, image.layers), folder)
    run(["mount", "-t", "overlay", "test-image", "-o", options, folder / "merged"])
    try:
        yield folder / "merged"
    finally:
        run(["umount", folder / "merged"])


@pytest.fixture(scope="module")
def manifest(root: Path) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((root / "usr/share/infinity/manifest.json").read_text())
    return loaded


def test_the_built_image_breaks_no_rule(root: Path) -> None:
    assert check.check(root) == []


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("PasswordAuthentication yes", "passwordauthentication"),
        ("PermitRootLogin prohibit-password", "permitrootlogin"),
        ("KbdInteractiveAuthentication yes", "kbdinteractiveauthentication"),
        ("AuthorizedKeysFile /srv/keys/%u", "authorizedkeysfile"),
    ],
)
def test_an_sshd_setting_that_comes_first_is_seen_by_asking_sshd(
    root: Path, line: str, option: str
) -> None:
    planted = root / "etc/ssh/sshd_config.d/00-a.conf"
    planted.write_text(f"{line}\n")
    try:
        findings = list(rules_logins.sshd_logins(Tree(root)))
        assert [option in finding.why for finding in findings] == [True]
    finally:
        planted.unlink()


def test_asking_sshd_writes_nothing_to_the_disk(root: Path) -> None:
    assert sshd.effective(Tree(root))["passwordauthentication"] == "no"
    assert not (root / "run/sshd").exists()


@pytest.mark.parametrize("name", SBOMS)
def test_each_bill_of_materials_is_valid_cyclonedx(root: Path, name: str) -> None:
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415 - slow to import
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    raw = (root / f"usr/share/infinity/sbom/{name}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(raw) is None


@pytest.mark.parametrize("name", SBOMS)
def test_a_bill_lists_exactly_what_is_installed(
    root: Path, manifest: dict[str, dict[str, dict[str, str]]], name: str
) -> None:
    raw = json.loads((root / f"usr/share/infinity/sbom/{name}.cdx.json").read_text())
    listed = {(_plain(part["name"]), part["version"]) for part in raw["components"]}
    installed = {(_plain(part), version) for part, version in manifest["packages"][name].items()}
    assert listed == installed
    assert all(part["purl"].startswith("pkg:") for part in raw["components"])


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def test_the_manifest_says_what_was_built(manifest: dict[str, object]) -> None:
    head = run(["git", "-c", "safe.directory=*", "-C", cache.REPO, "rev-parse", "HEAD"])
    assert str(manifest["commit"]).removesuffix("+") == head.stdout.strip()
    python = ".".join(str(manifest["python"]).split(".")[:2])
    for name in ("server", "appliance", "sbom"):
        expected = hashlib.sha256(
            (cache.REPO / f"packer/locks/{name}-{python}.txt").read_bytes()
        ).hexdigest()
        assert manifest["locks"][f"{name}-{python}.txt"] == expected  # type: ignore[index]


def test_the_manifest_has_the_pinned_model(manifest: dict[str, list[dict[str, object]]]) -> None:
    (model,) = manifest["models"]
    pinned = {
        raw["id"]: raw
        for raw in map(json.loads, (p.read_text() for p in cache.REPO.glob("packer/models/*.json")))
    }[str(model["id"])]
    assert (model["revision"], model["files"]) == (pinned["revision"], pinned["files"])
