"""Another set of models in place of the present one: downloaded, tried, switched, or put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from appliance import ask, command, derived, model_set, room, server_env, trial, units
from appliance.activate import Change, NewFile
from appliance.apply import apply
from appliance.ask import Answered
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.model_set import Wanted
from appliance.paths import Paths


def environment(paths: Paths) -> dict[str, str]:
    """What infinity.env sets."""
    return server_env.values(paths.server_env.read_text("utf-8"))


def ensure_cached(
    wanted: Wanted, paths: Paths, watch: Callable[[str], None], *, offline: bool
) -> None:
    """Have every model in the cache.

    Raises:
        ApplianceError: one is not there, and could not or shall not be downloaded.
    """
    before = environment(paths)
    missing = model_set.absent(wanted.config(before, paths.model_cache))
    if missing and offline:
        raise ApplianceError(
            f"The cache has no usable {', '.join(missing)}.",
            "Leave --offline out, or bring it with `infinity-model import`.",
        )
    if missing:
        trial.fetch({**before, **wanted.values(before)}, watch)


def fits_beside(wanted: Wanted, paths: Paths) -> bool:
    """Whether the models can be tried while the present ones serve.

    Raises:
        ApplianceError: they are too large for this instance.
    """
    serving = wanted.config(environment(paths), paths.model_cache)
    return room.check(room.needed(model_set.snapshots(serving)))


def try_beside(wanted: Wanted, paths: Paths, watch: Callable[[str], None]) -> list[Answered]:
    """Load the models in a second server, and ask each for everything it can do.

    Raises:
        ApplianceError: one did not load or answer.
    """
    before = environment(paths)
    with trial.server({**before, **wanted.values(before)}, watch=watch) as port:
        return ask.everything(port)


def switch(wanted: Wanted, gate: Gate) -> list[Answered]:
    """Serve the models; when they do not answer, the old ones again.

    Raises:
        ApplianceError: what failed; everything is as it was.
    """
    answers: list[Answered] = []
    with old_server_back(gate), command.changing(gate) as known:
        text = gate.paths.server_env.read_text("utf-8")
        new_text = server_env.updated(text, wanted.values(server_env.values(text)))
        new = replace(known, model=wanted.names[0])

        def serve() -> None:
            units.restart(units.SERVER)
            answers.extend(ask.everything(known.ports.upstream))

        files: list[Change] = [
            NewFile(gate.paths.server_env, new_text, 0o644, (0, 0)),
            *derived.described(new, gate),
        ]
        apply(files, new, gate, serve)
    return answers


@contextmanager
def old_server_back(gate: Gate) -> Iterator[None]:
    """Wait, after a change of the server that failed, until the old one serves again."""
    try:
        yield
    except ApplianceError:
        with suppress(ApplianceError):  # the first error is the one to tell
            if gate.is_service:
                units.await_ready(units.SERVER)
        raise
