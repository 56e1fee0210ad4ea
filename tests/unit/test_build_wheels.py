from __future__ import annotations

import re
from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from machine import wheels

PYTHONS = ("3.11", "3.12", "3.13")
NAMES = ("server", "appliance", "dev")
CPU_TORCH = "torch-2.14.1+cpu-cp312-cp312-manylinux_2_28_x86_64.whl"


def pins(name: str, python: str) -> dict[str, str]:
    text = wheels.lock_file(name, python).read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==([^\s;]+)", text, re.MULTILINE))


@pytest.mark.parametrize(
    "wheel",
    [
        "nvidia_cudnn_cu13-9.24.0.43-py3-none-manylinux_2_27_x86_64.whl",
        "triton-3.8.0-cp312-cp312-manylinux_2_27_x86_64.whl",
        "cuda_bindings-13.0.3-cp312-cp312-manylinux_2_24_x86_64.whl",
        "torch-2.14.1-cp312-cp312-manylinux_2_28_x86_64.whl",
        "torch-2.14.1+cu130-cp312-cp312-manylinux_2_28_x86_64.whl",
    ],
)
def test_a_wheel_of_a_cuda_build_is_refused(tmp_path: Path, wheel: str) -> None:
    (tmp_path / CPU_TORCH).touch()
    (tmp_path / wheel).touch()
    with pytest.raises(ApplianceError, match=re.escape(wheel)):
        wheels.refuse_cuda(tmp_path)


def test_the_cpu_build_is_not_refused(tmp_path: Path) -> None:
    (tmp_path / CPU_TORCH).touch()
    (tmp_path / "numpy-1.26.4-cp312-cp312-manylinux_2_17_x86_64.whl").touch()
    wheels.refuse_cuda(tmp_path)
    assert wheels.torch_version(tmp_path) == "2.14.1+cpu"


def test_torch_falls_back_to_what_pip_offers_but_never_to_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFINITY_APPLIANCE_CACHE", str(tmp_path))
    asked = []

    def download(folder: Path, _python: str, wanted: list[str]) -> None:
        asked.append(wanted)
        if wheels.TORCH_INDEX in wanted:
            raise ApplianceError("out of reach")
        (folder / CPU_TORCH.replace(wheels.TORCH, wheels.TORCH_FALLBACK)).touch()

    monkeypatch.setattr(wheels, "_download", download)
    assert wheels.torch_version(wheels.torch("3.12")) == wheels.TORCH_FALLBACK
    assert [wanted[-1] for wanted in asked] == ["torch==2.14.1+cpu", "torch==2.13.0+cpu"]


def test_no_torch_for_this_python_is_one_sentence_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFINITY_APPLIANCE_CACHE", str(tmp_path))

    def download(_folder: Path, _python: str, _wanted: list[str]) -> None:
        raise ApplianceError("out of reach")

    monkeypatch.setattr(wheels, "_download", download)
    with pytest.raises(ApplianceError, match=r"No CPU build of PyTorch for Python 3\.13") as caught:
        wheels.torch("3.13")
    assert "PIP_FIND_LINKS" in caught.value.hint
    assert [path.name for path in (tmp_path / "wheels").iterdir()] == []


def test_an_unsupported_python_is_one_sentence_with_a_hint() -> None:
    with pytest.raises(ApplianceError, match=r"Python 3\.9") as caught:
        wheels.lock_file("server", "3.9")
    assert "3.11, 3.12 or 3.13" in caught.value.hint


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", NAMES)
def test_a_lock_has_hashes_for_all_and_no_torch_cuda_or_index(name: str, python: str) -> None:
    text = wheels.lock_file(name, python).read_text()
    packages = pins(name, python)
    assert "torch" not in packages
    assert [package for package in packages if wheels.CUDA.match(package)] == []
    assert "://" not in text
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(packages)
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("python", PYTHONS)
def test_the_locks_of_one_python_agree_so_that_one_environment_holds_all(python: str) -> None:
    server, appliance, dev = (pins(name, python) for name in NAMES)
    for one, other in ((server, appliance), (server, dev), (appliance, dev)):
        shared = one.keys() & other.keys()
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_server_lock_has_what_infinity_needs_to_start(python: str) -> None:
    server = pins("server", python)
    assert server["infinity-emb"] == "0.0.77"
    assert int(server["huggingface-hub"].split(".")[0]) < 1
    assert tuple(map(int, server["click"].split(".")[:2])) < (8, 2)
    # torch's own requirements, since it is installed without dependencies.
    assert {"filelock", "fsspec", "jinja2", "networkx", "setuptools", "sympy"} <= server.keys()
