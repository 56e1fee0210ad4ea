"""Serve other models: one or several, that embed, rerank or classify, in one process.

The models are downloaded, loaded beside the present ones where memory allows, and asked for
everything they can do; only when all answered are they served in place of the present ones.
While the server changes, callers get 503 with Retry-After. Otherwise nothing changes.
"""

from __future__ import annotations

import argparse
import sys

from appliance import ask, command, model_switch, show
from appliance.apply import locked
from appliance.command import UsageError
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.model_set import Wanted

BUSY = "Models or the server are being changed already."
REMOTE_CODE = """\
--trust-remote-code: Python files from the repositories of these models will run in the model
server, from now until another model is set. They run as user infinity, without network beyond
loopback and without any credential, and they see every text that clients send. Read them first,
and pin what you read: owner/name@COMMIT."""
PICKLE = """\
--allow-pickle: these weights may be in a format that can run code when it is read, as the same
user and with the same limits as a model's Python files."""


def main() -> int:
    return command.run(arguments(), act)


def arguments() -> argparse.ArgumentParser:
    example = (
        "sudo infinity-set-model BAAI/bge-reranker-base\n"
        "  sudo infinity-set-model BAAI/bge-small-en-v1.5 BAAI/bge-reranker-base "
        "--as embedder --as reranker"
    )
    parser = command.parser("infinity-set-model", __doc__, example)
    parser.add_argument("ids", nargs="+", metavar="ID[@REV]", help="as huggingface.co names it")
    parser.add_argument(
        "--as", dest="served", action="append", default=[], metavar="NAME",
        help="what clients call a model; once for each, in their order",
    )  # fmt: skip
    parser.add_argument("--offline", action="store_true", help="take what the cache has")
    parser.add_argument("--allow-pickle", action="store_true", help="weights of any format")
    parser.add_argument(
        "--trust-remote-code", action="store_true", help="run Python files of the models"
    )
    return parser


def act(options: argparse.Namespace, gate: Gate) -> None:
    wanted = Wanted(
        tuple(options.ids),
        tuple(options.served),
        allow_pickle=options.allow_pickle,
        trust_remote_code=options.trust_remote_code,
    )
    check(wanted)
    warn(wanted)
    with locked(gate.paths.server_lock, BUSY, 0):
        with command.unchanged():
            get(wanted, gate, offline=options.offline)
            attempt(wanted, gate)
        change(wanted, gate)


def check(wanted: Wanted) -> None:
    try:
        wanted.check()
    except ApplianceError as error:
        raise UsageError(error.message, error.hint) from error


def warn(wanted: Wanted) -> None:
    for given, text in ((wanted.trust_remote_code, REMOTE_CODE), (wanted.allow_pickle, PICKLE)):
        if given:
            print(text, file=sys.stderr, flush=True)


def get(wanted: Wanted, gate: Gate, *, offline: bool) -> None:
    with show.progress() as watch:
        model_switch.ensure_cached(wanted, gate.paths, watch, offline=offline)


def attempt(wanted: Wanted, gate: Gate) -> None:
    if not model_switch.fits_beside(wanted, gate.paths):
        show.say("Memory does not allow to try the new models beside the present ones: they are")
        show.say("tried in their place, and the present ones come back if they do not answer.")
        return
    show.say("Loading the new models beside the present ones.")
    with show.progress() as watch:
        answers = model_switch.try_beside(wanted, gate.paths, watch)
    for line in ask.told(answers):
        show.say(f"  answered: {line}")


def change(wanted: Wanted, gate: Gate) -> None:
    for alias in wanted.dropped(model_switch.environment(gate.paths)):
        show.say(f"The alias {alias!r} ends: it stands for a model that is served no more.")
    show.say("Switching; callers get 503 with Retry-After until the new models are loaded.")
    for line in ask.told(model_switch.switch(wanted, gate)):
        show.say(f"Served now: {line}")


if __name__ == "__main__":
    sys.exit(main())
