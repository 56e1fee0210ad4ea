"""Which model a request means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from appliance.serving.errors import ApiError, invalid
from appliance.serving.models import Served


class Catalog:
    """The models under their served names, and other names for them."""

    def __init__(self, models: Sequence[Served], aliases: Mapping[str, str]) -> None:
        self.models = tuple(models)
        self.aliases = dict(aliases)
        self._by_name = {model.name: model for model in models}
        self._by_name.update({alias: self._by_name[name] for alias, name in aliases.items()})

    @property
    def names(self) -> list[str]:
        """Everything a client may ask for, aliases last."""
        return list(self._by_name)

    @property
    def sizes(self) -> list[int]:
        """Every size a vector can be asked for in, with one model or another."""
        sizes = {size for m in self.models for size in (m.dimensions, *m.matryoshka) if size}
        return sorted(sizes)

    def able(self, task: str) -> list[str]:
        """The names, aliases included, of the models that can do it."""
        return [name for name, model in self._by_name.items() if task in model.capabilities]

    def find(self, name: str) -> Served | None:
        return self._by_name.get(name)

    def resolve(self, name: str | None, task: str) -> Served:
        """The model for a request.

        Args:
            name: as the client said it; None is the only one served.
            task: ``embed``, ``rerank``, ``classify``, or one no model here can do.

        Raises:
            ApiError: 400: no such model, none named among several, or not able to.
        """
        served = ", ".join(f"`{model.name}`" for model in self.models)
        if name is None:
            if len(self.models) != 1:
                raise invalid(
                    f"Several models are served, so 'model' has to name one of {served}.",
                    "model",
                    "model_required",
                )
            model = self.models[0]
        elif name in self._by_name:
            model = self._by_name[name]
        else:
            raise invalid(
                f"Invalid model: `{name[:200]}` is not served here. Served: {served}.",
                "model",
                "model_not_found",
            )
        if task not in model.capabilities:
            raise invalid(
                f"ModelNotDeployedError: model=`{model.name}` does not support `{task}`. "
                f"It can do: {', '.join(model.capabilities)}.",
                "model",
                "model_not_deployed",
            )
        return model

    def get(self, name: str) -> Served:
        """The model of ``GET /models/{id}``; raises ApiError (404)."""
        model = self.find(name)
        if model is None:
            raise ApiError(
                404, f"The model `{name[:200]}` is not served here.", code="model_not_found"
            )
        return model
