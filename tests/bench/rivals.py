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
_OPTIONS = (
    "CMAKE_BUILD_TYPE=Release",
    "BUILD_SHARED_LIBS=OFF",
    "LLAMA_OPENSSL=OFF",
    "LLAMA_USE_PREBUILT_UI=OFF",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
)
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
        ApplianceError: the source or a compiler cannot be had, it does not compile, or not in
            the time it is given; the next call goes on where this one stopped.
    """
    with cache.lock("llama"):
        folder = cache.make_once(
            cache.folder("llama") / cache.key(_LLAMA, _cpu()), _fetch, f"source of {_LLAMA}"
        )
        build = folder / "build"
        if not (build / "bin/llama-server").is_file():
            host.install(_COMPILERS)
            cache.say("Compiling llama.cpp's server ...")
            options = [f"-D{option}" for option in _OPTIONS]
            run(["cmake", "-S", folder / "source", "-B", build, *options], timeout=None)
            jobs = ("--parallel", str(len(os.sched_getaffinity(0))))
            run(
                ["cmake", "--build", build, "--target", "llama-server", *jobs],
                timeout=_BUILD_PATIENCE,
            )
    return folder


def _fetch(into: Path) -> None:
    """llama.cpp's part of the package's source."""
    package = into / "package"
    options = ("--quiet", "--no-deps", "--no-binary", ":all:")
    run([*pip(), "download", *options, "--dest", package, _LLAMA], timeout=None)
    (archive,) = package.glob("*.tar.gz")
    run(["tar", "--extract", "--file", archive, "--directory", package], timeout=None)
    (source,) = package.glob("*/vendor/llama.cpp")
    source.rename(into / "source")
    shutil.rmtree(package)


def _cpu() -> str:
    """What the compiler sees of this CPU: its instructions."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith("flags")), "")
