"""A set of models to serve: from the operator's words to infinity.env, and what the cache has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.serving import config, weights
from appliance.serving.config import ServingConfig

# What clients write into "model", and infinity.env holds without quotes.
_SERVED = re.compile(r"\w[\w.:/@+-]{0,127}", re.ASCII)
_LONGEST = 200  # characters of an id with its revision
MOST = 16  # models in one process


@dataclass(frozen=True)
class Wanted:
    """``ids`` are owner/name or owner/name@revision; ``served`` the first ones' public names."""

    ids: tuple[str, ...]
    served: tuple[str, ...] = ()
    allow_pickle: bool = False
    trust_remote_code: bool = False

    def check(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            ApplianceError: an id or a name is not one, or there are more names than models.
        """
        for given in self.ids:
            check_id(given)
        for name in self.served:
            if not _SERVED.fullmatch(name):
                raise ApplianceError(
                    f"{name[:200]!r} is no name to serve a model under.",
                    "Use letters, digits and . _ - : / @ +, up to 128 of them.",
                )
        if len(self.served) > len(self.ids) or len(self.ids) > MOST:
            raise ApplianceError(
                f"{len(self.ids)} models and {len(self.served)} names do not go together.",
                f"Give up to {MOST} models, and at most one --as for each.",
            )
        self.config({}, Path("/"))

    @property
    def names(self) -> tuple[str, ...]:
        """What clients call each model."""
        rest = self.ids[len(self.served) :]
        return (*self.served, *(given.partition("@")[0] for given in rest))

    def values(self, before: Mapping[str, str]) -> dict[str, str]:
        """What changes in infinity.env.

        Args:
            before: what it sets now.
        """
        kept = [alias for alias in _aliases(before) if self._serves(alias)]
        return {
            "MODEL": ";".join(self.ids),
            "INFINITY_SERVED_MODEL_NAME": ";".join(self.names) if self.served else "",
            "MODEL_ALIASES": ";".join(kept),
            "ALLOW_PICKLE": "true" if self.allow_pickle else "",
            "TRUST_REMOTE_CODE": "true" if self.trust_remote_code else "",
        }

    def dropped(self, before: Mapping[str, str]) -> list[str]:
        """The aliases that stand for a model that is served no more."""
        return [alias for alias in _aliases(before) if not self._serves(alias)]

    def config(self, before: Mapping[str, str], home: Path) -> ServingConfig:
        """What the server makes of it.

        Raises:
            ApplianceError: the server would not take it.
        """
        environment = {**before, **self.values(before), "HF_HOME": str(home)}
        return config.from_environment(environment)

    def _serves(self, alias: str) -> bool:
        target = alias.partition("=")[2].strip()
        return not target or target in self.names


def check_id(given: str) -> None:
    """Refuse what is not owner/name or owner/name@revision.

    Raises:
        ApplianceError: says so.
    """
    repo, at, revision = given.partition("@")
    whole = config.MODEL_ID.fullmatch(repo) and (not at or config.REVISION.fullmatch(revision))
    if not whole or len(given) > _LONGEST:
        raise ApplianceError(
            f"{given[:_LONGEST]!r} is not a model id.",
            "Write owner/name or owner/name@revision, as huggingface.co shows it.",
        )


def absent(settings: ServingConfig) -> list[str]:
    """The ids of the models that the cache does not have, or has no weights of that may be read."""
    missing = []
    for model in settings.models:
        snapshot = model.snapshot(settings.hub)
        allow = settings.allow_pickle
        if snapshot is None or not weights.present(snapshot, allow_pickle=allow):
            missing.append(model.repo)
    return missing


def snapshots(settings: ServingConfig) -> list[Path]:
    """The folders of the models' files."""
    return [settings.snapshot(model) for model in settings.models]


def _aliases(values: Mapping[str, str]) -> list[str]:
    return [part.strip() for part in values.get("MODEL_ALIASES", "").split(";") if part.strip()]
