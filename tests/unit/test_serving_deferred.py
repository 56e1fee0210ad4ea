"""Libraries that serving never uses: imported when something does use them, and not before."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.serving.deferred import UNUSED, Deferring

NAME = "appliance_heavy"
Heavy = Any  # a module that is written below
SOURCE = """
LOADED = True
def add(a, b): return a + b
class Shape: sides = 3
"""


@pytest.fixture
def heavy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Heavy]:
    """A package with one module, imported while it is deferred."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [Deferring([NAME]), *sys.meta_path])
    yield importlib.import_module(f"{NAME}.part")
    for name in [n for n in sys.modules if n.partition(".")[0] == NAME]:
        del sys.modules[name]


def is_loaded() -> bool:
    return "LOADED" in vars(sys.modules[f"{NAME}.part"])


def test_an_import_and_a_name_taken_from_it_load_nothing(heavy: Heavy) -> None:
    assert heavy.add
    assert heavy.Shape
    assert not is_loaded()


def test_a_call_is_the_real_one(heavy: Heavy) -> None:
    assert heavy.add(2, 3) == 5
    assert is_loaded()


def test_an_attribute_is_the_real_one(heavy: Heavy) -> None:
    assert heavy.Shape.sides == 3


def test_isinstance_asks_the_real_class(heavy: Heavy) -> None:
    shape, stand = heavy.Shape, heavy.Shape
    assert isinstance(shape(), stand)
    assert not isinstance(3, stand)


def test_a_subclass_is_one_of_the_real_class(heavy: Heavy) -> None:
    class Square(heavy.Shape):  # type: ignore[misc]  # known only when it runs
        pass

    assert Square.sides == 3
    assert issubclass(Square, heavy.Shape)


def test_the_server_loads_without_them() -> None:
    code = (
        "import sys; from appliance.serving import deferred, server;"
        "server.prepare_environment(); deferred.defer();"
        "import appliance.serving.service;"
        "from transformers import AutoModel;"
        "from sentence_transformers import SentenceTransformer;"
        "print([n for n in sys.modules if n == 'sympy' or getattr(sys.modules[n], '__file__', None)"
        f" and n in {UNUSED!r}])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    assert found.stdout.strip() == "[]"
