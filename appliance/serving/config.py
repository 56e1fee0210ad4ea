"""What the operator asked to be served, read from the environment (infinity.env and the unit).

Standard library only: the fetch service reads the same settings on every boot and must not
pay for an import it does not need.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError

ENV_FILE = "/etc/infinity/infinity.env"
DEFAULT_PORT = 7997
DTYPES = ("auto", "float32", "bfloat16", "float16", "int8")
# Owner and name as the model hub allows them; a `..` or a second slash would leave the cache.
MODEL_ID = re.compile(r"(?!.*(?:--|\.\.))(?:\w[\w.-]*/)?\w[\w.-]*", re.ASCII)
REVISION = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*", re.ASCII)


@dataclass(frozen=True)
class ModelSource:
    """One model: its id on the hub, the revision asked for ("" = main), its public name."""

    repo: str
    revision: str
    served_name: str

    def folder(self, hub: Path) -> Path:
        """Where the hub's cache layout keeps this model."""
        return hub / f"models--{self.repo.replace('/', '--')}"

    def snapshot(self, hub: Path) -> Path | None:
        """The folder with this revision's files, or None when the cache has no such revision."""
        folder = self.folder(hub)
        revision = self.revision or "main"
        reference = folder / "refs" / revision
        commit = reference.read_text().strip() if reference.is_file() else revision
        found = folder / "snapshots" / commit
        return found if (found / "config.json").is_file() else None


@dataclass(frozen=True)
class ServingConfig:
    """Everything the server takes from its environment.

    ``aliases`` maps another name for a model to the served name it stands for. ``allow_pickle``
    lets weights in that may run code when they are read, ``trust_remote_code`` lets Python files
    of a model's repository run.
    """

    models: tuple[ModelSource, ...]
    aliases: Mapping[str, str]
    dtype: str
    port: int
    home: Path
    allow_pickle: bool = False
    trust_remote_code: bool = False

    @property
    def hub(self) -> Path:
        """The hub cache: ``models--owner--name/snapshots/…`` live here."""
        return self.home / "hub"

    def snapshot(self, model: ModelSource) -> Path:
        """The folder with a model's files.

        Raises:
            ApplianceError: the cache does not have it.
        """
        found = model.snapshot(self.hub)
        if found is None:
            raise ApplianceError(
                f"The model {model.repo} is not in the cache {self.hub}.",
                "`systemctl restart infinity.service` downloads it, given outbound HTTPS to "
                "huggingface.co; `journalctl -u infinity-model` says what went wrong.",
            )
        return found


def from_environment(environ: Mapping[str, str]) -> ServingConfig:
    """Read and check the settings.

    Args:
        environ: MODEL (``id`` or ``id@revision``, several separated by ``;``),
            INFINITY_SERVED_MODEL_NAME (their public names, in the same order),
            MODEL_ALIASES (``alias`` or ``alias=served name``, separated by ``;``), DTYPE,
            INFINITY_PORT, HF_HOME, ALLOW_PICKLE and TRUST_REMOTE_CODE (``true``, or not at all).

    Raises:
        ApplianceError: a setting that cannot be meant.
    """
    models = _models(environ.get("MODEL", ""), environ.get("INFINITY_SERVED_MODEL_NAME", ""))
    dtype = environ.get("DTYPE", "").strip() or "auto"
    if dtype not in DTYPES:
        raise ApplianceError(
            f"DTYPE={dtype} is not known.",
            f"Set DTYPE in {ENV_FILE} to one of {', '.join(DTYPES)}.",
        )
    port = environ.get("INFINITY_PORT", "").strip() or str(DEFAULT_PORT)
    if not (port.isdecimal() and 0 < int(port) < 2**16):
        raise ApplianceError(f"INFINITY_PORT={port} is no TCP port.", "Use a number up to 65535.")
    home = environ.get("HF_HOME", "").strip()
    if not home:
        raise ApplianceError(
            "HF_HOME, the folder of the model cache, is not set.",
            "infinity.service sets it; by hand, export HF_HOME=/var/lib/infinity/hf.",
        )
    return ServingConfig(
        models,
        _aliases(environ.get("MODEL_ALIASES", ""), models),
        dtype,
        int(port),
        Path(home),
        allow_pickle=environ.get("ALLOW_PICKLE", "").strip() == "true",
        trust_remote_code=environ.get("TRUST_REMOTE_CODE", "").strip() == "true",
    )


def _split(value: str) -> list[str]:
    return [part.strip() for part in value.split(";") if part.strip()]


def _models(value: str, names: str) -> tuple[ModelSource, ...]:
    sources = _split(value)
    if not sources:
        raise ApplianceError(
            "No model is configured.", f"Set MODEL in {ENV_FILE} to a model id, such as owner/name."
        )
    served = _split(names)
    if served and len(served) != len(sources):
        raise ApplianceError(
            f"MODEL names {len(sources)} models and INFINITY_SERVED_MODEL_NAME {len(served)}.",
            "Give one served name for each model, in the same order, separated by `;`.",
        )
    models = []
    for index, source in enumerate(sources):
        repo, at, revision = source.partition("@")
        if not MODEL_ID.fullmatch(repo) or (at and not REVISION.fullmatch(revision)):
            raise ApplianceError(
                f"MODEL={source!r} is not a model id.",
                f"Write owner/name or owner/name@revision in {ENV_FILE}; separate several by `;`.",
            )
        models.append(ModelSource(repo, revision, served[index] if served else repo))
    if len({model.served_name for model in models}) != len(models):
        raise ApplianceError(
            "Two models have the same served name.",
            "Set INFINITY_SERVED_MODEL_NAME to different names, separated by `;`.",
        )
    return tuple(models)


def _aliases(value: str, models: tuple[ModelSource, ...]) -> dict[str, str]:
    served = {model.served_name for model in models}
    aliases = {}
    for entry in _split(value):
        alias, _, target = (part.strip() for part in entry.partition("="))
        target = target or models[0].served_name
        if not alias or target not in served:
            raise ApplianceError(
                f"MODEL_ALIASES: {entry!r} does not name a served model.",
                f"Write alias=model in {ENV_FILE}, with a model that MODEL names.",
            )
        if alias not in served:
            aliases[alias] = target
    return aliases
