"""Serve with another version of Infinity, or go back to the one before.

The version is installed beside the present one, with the same CPU build of PyTorch. The present
models are loaded there and must answer the same texts as they do now; then the server changes
over, and callers get 503 with Retry-After for as long as it loads. Otherwise nothing changes.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from appliance import ask, command, settings, show, upgrade
from appliance.apply import locked
from appliance.ask import Answered
from appliance.command import UsageError
from appliance.gate import Gate

BUSY = "Models or the server are being changed already."


def main() -> int:
    return command.run(arguments(), act)


def arguments() -> argparse.ArgumentParser:
    example = "sudo infinity-upgrade 0.0.78\n  sudo infinity-upgrade --rollback"
    parser = command.parser("infinity-upgrade", __doc__, example)
    parser.add_argument("version", nargs="?", metavar="VERSION", help="of infinity-emb")
    parser.add_argument("--rollback", action="store_true", help="go back to the version before")
    parser.add_argument("--index-url", metavar="URL", help="another package index, for pip")
    parser.add_argument("--find-links", metavar="DIR|URL", help="more wheels, for pip")
    parser.add_argument("--no-index", action="store_true", help="only these wheels, for pip")
    return parser


def act(options: argparse.Namespace, gate: Gate) -> None:
    check(options)
    os.umask(0o022)  # the server is not root
    with locked(gate.paths.server_lock, BUSY, 0), swept(gate):
        with command.unchanged():
            venv, expected = prepare(options, gate)
            show.say("Loading the present models in it, beside the present server.")
            with show.progress() as watch:
                answers = upgrade.attempt(venv, gate, watch)
            if not options.rollback:
                upgrade.compare(expected, answers)
                show.say("  every model answers as before")
        show.say("Switching; callers get 503 with Retry-After until the models are loaded.")
        answers = upgrade.switch(venv, gate)
    version = upgrade.installed(venv)["infinity-emb"]
    for line in ask.told(answers):
        show.say(f"Served now, by Infinity {version}: {line}")


@contextmanager
def swept(gate: Gate) -> Iterator[None]:
    """Whatever comes of it, no environment stays that nothing leads to."""
    try:
        yield
    finally:
        upgrade.sweep(gate.paths)


def check(options: argparse.Namespace) -> None:
    if options.rollback == bool(options.version):
        raise UsageError("Give a version, or --rollback.", "See `infinity-upgrade --help`.")
    if options.version and not upgrade.VERSION.fullmatch(options.version):
        raise UsageError(
            f"{options.version[:100]!r} is no version.", "Write it as the package has it: 0.0.77."
        )
    for given in (options.index_url, options.find_links):
        if given is not None and (not given or given.startswith("-") or not given.isprintable()):
            raise UsageError(f"{given[:100]!r} is no folder or URL.", "Give a folder or a URL.")


def prepare(options: argparse.Namespace, gate: Gate) -> tuple[Path, Sequence[Answered]]:
    """The environment to change to, and what the present server answers."""
    if options.rollback:
        return upgrade.previous(gate.paths), ()
    known = settings.required(gate.paths)
    expected = ask.everything(known.ports.upstream)
    show.say(f"Installing infinity-emb {options.version} beside the present one.")
    venv = upgrade.copied(f"{options.version}-{secrets.token_hex(3)}", gate.paths)
    pip = [f"--index-url={options.index_url}"] * bool(options.index_url)
    pip += [f"--find-links={options.find_links}"] * bool(options.find_links)
    pip += ["--no-index"] * bool(options.no_index)
    upgrade.install(options.version, venv, pip)
    return venv, expected


if __name__ == "__main__":
    sys.exit(main())
