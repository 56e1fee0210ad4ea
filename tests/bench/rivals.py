"""The other engines for the same weights: ONNX Runtime through fastembed, and llama.cpp."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.run import run
from machine import cache, host
from machine.interpreter import MADE, create, pip, place
from machine.venvs import host_venv, packages
from tests.bench.models import Model
from tests.bench.servers import ROOT, Server, free_port, running

_ONNX = ("fastembed", "onnx", "tokenizers<0.23", "huggingface-hub<1", "numpy<2")
# The package of llama.cpp's Python binding, because its source carries all of llama.cpp.
_LLAMA = "llama-cpp-python==0.3.36"
_COMPILERS = {"cmake": "cmake", "g++": "g++", "make": "make"}
_BUILD_PATIENCE = 900.0  # seconds


@contextmanager
def fastembed(home: Path, model: Model, snapshot: Path) -> Iterator[Server]:
    """ONNX Runtime on the same weights."""
    python, exported = str(_onnx_venv() / "bin/python"), home / "onnx" / model.id.replace("/", "-")
    program = str(ROOT / "tests/bench/onnx_server.py")
    if not (exported / "model.onnx").is_file():
        shutil.rmtree(exported, ignore_errors=True)
        run([python, program, "export", snapshot, exported], timeout=None)
    port = free_port()
    argv = [python, program, "serve", str(exported), str(port)]
    with running("fastembed", argv, home=home, port=port, model=model) as server:
        yield server


def _onnx_venv() -> Path:
    """An environment with fastembed that sees what ``serve`` holds."""
    serve = packages(host_venv("serve"))
    path = place("onnx", *_ONNX, str(serve))
    if not (path / MADE).exists():
        create(path)
        run([path / "bin/python", "-m", "pip", "install", "--quiet", *_ONNX], timeout=None)
        (packages(path) / "serve.pth").write_text(f"{serve}\n")
        (path / MADE).touch()
    return path


@contextmanager
def llama(home: Path, model: Model, snapshot: Path) -> Iterator[Server]:
    """llama.cpp's own server, compiled for this machine, on the same weights in float32."""
    folder = _llama()
    weights = home / "gguf" / f"{model.id.replace('/', '-')}.gguf"
    if not weights.is_file():
        weights.parent.mkdir(exist_ok=True)
        made = weights.with_suffix(".part")
        convert = folder / "source/convert_hf_to_gguf.py"
        run(
            [host_venv("serve") / "bin/python", convert, snapshot,
             "--outtype", "f32", "--outfile", made],
            timeout=None,
            env=os.environ | {"PYTHONPATH": str(folder / "source/gguf-py")},
        )  # fmt: skip
        made.rename(weights)
    port = free_port()
    argv = [
        str(folder / "build/bin/llama-server"), "--model", str(weights), "--embedding",
        # 16 texts at a time, each with the model's whole window.
        "--parallel", "16", "--ctx-size", str(16 * 512), "--batch-size", "512",
        "--ubatch-size", "512", "--threads", str(len(os.sched_getaffinity(0))),
        "--host", "127.0.0.1", "--port", str(port), "--no-webui",
    ]  # fmt: skip
    with running(
        "llama.cpp", argv, home=home, port=port, model=model, path="/v1/embeddings"
    ) as server:
        yield server


def _llama() -> Path:
    """Folder with llama.cpp's ``source`` and ``build``, kept in the cache.

    Raises:
        ApplianceError: the source or a compiler cannot be had, or it does not compile.
    """
    with cache.lock("llama"):
        return cache.make_once(cache.folder("llama") / cache.key(_LLAMA, _cpu()), _compile, _LLAMA)


def _compile(into: Path) -> None:
    host.install(_COMPILERS)
    download = ("download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", into)
    run([*pip(), *download, _LLAMA], timeout=None)
    (archive,) = into.glob("*.tar.gz")
    package = into / "package"
    package.mkdir()
    run(["tar", "--extract", "--file", archive, "--directory", package], timeout=None)
    archive.unlink()
    (source,) = package.glob("*/vendor/llama.cpp")
    source.rename(into / "source")
    shutil.rmtree(package)
    build = into / "build"
    run(
        ["cmake", "-S", into / "source", "-B", build, "-DCMAKE_BUILD_TYPE=Release",
         "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF",
         "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF"],
        timeout=None,
    )  # fmt: skip
    jobs = str(len(os.sched_getaffinity(0)))
    run(
        ["cmake", "--build", build, "--target", "llama-server", "--parallel", jobs],
        timeout=_BUILD_PATIENCE,
    )


def _cpu() -> str:
    """What the compiler sees of this CPU: its instructions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith("flags")), "")
