"""Libraries that are imported on their way in and never used in serving: loaded when one is.

Infinity brings transformers and sentence-transformers, which bring scikit-learn and SciPy (for
training and evaluation), torch.compile's front end and with it SymPy; its own telemetry and its
fetching of images, which are both off here, bring an HTTP client each. Together they are 140 MB
and a third of the imports' time. Importing one of them gives a stand-in instead; its first use
imports the real one, so whatever does need it gets it, only later.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

UNUSED = (
    "aiohttp",
    "posthog",
    "scipy",
    "sklearn",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "transformers.integrations.flex_attention",
    "transformers.integrations.tensor_parallel",
    "watchfiles",
)
# Decorators that say something of their function to torch.compile alone.
_MARKS = {("torch._dynamo", "allow_in_graph")}


class Stand:
    """A name of a module that was not imported yet, as good as what it stands for.

    Calls, attributes, ``isinstance`` and subclassing all go to the real one.
    """

    def __init__(self, finder: Deferring, module: str, name: str) -> None:
        self.__dict__.update(_finder=finder, _module=module, _name=name)

    def _real(self) -> Any:  # noqa: ANN401 - anything a module holds
        self._finder.stop(self._module)
        return getattr(importlib.import_module(self._module), self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the real one's
        if (self._module, self._name) in _MARKS:
            return args[0]
        return self._real()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the real one's
        return getattr(self._real(), name)

    def __setattr__(self, name: str, value: object) -> None:
        """Nothing: what Infinity sets is of torch.compile, which does not run here."""

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._real())

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self._real())

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (self._real(),)


class Deferring(MetaPathFinder, Loader):
    """Finds the unused libraries before their real finder does."""

    def __init__(self, names: Sequence[str] = UNUSED) -> None:
        self._names = set(names)

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        del path, target
        return ModuleSpec(fullname, self, is_package=True) if self._root(fullname) else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Python's own empty module will do."""

    def exec_module(self, module: ModuleType) -> None:
        """Let every name in it be a stand-in; Python asks for dunder names to see what it has."""
        found = module.__name__

        def get(name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            return Stand(self, found, name)

        vars(module)["__getattr__"] = get

    def stop(self, fullname: str) -> None:
        """Import the library of this module for real from here on."""
        root = self._root(fullname)
        if root:
            self._names.remove(root)
            for name in [n for n in sys.modules if n == root or n.startswith(f"{root}.")]:
                del sys.modules[name]

    def _root(self, fullname: str) -> str | None:
        return next((n for n in self._names if fullname == n or fullname.startswith(f"{n}.")), None)


def defer() -> None:
    """From here on; to be called before anything imports Infinity."""
    sys.meta_path.insert(0, Deferring())
