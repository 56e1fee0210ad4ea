"""Put models into this instance's cache, and carry them to one that has no internet.

`pull` fetches from the model hub. `export` writes one model into a file, with the sha256 of
everything in it; `import` checks such a file and lays the model into the cache. None of them
changes what is served: infinity-set-model does.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import sys
import tempfile
from pathlib import Path

from appliance import carry, command, hub, model_set, model_switch, show
from appliance.apply import locked
from appliance.command import UsageError
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.model_set import Wanted

USER = "infinity"
BUSY = "Models or the server are being changed already."


def main() -> int:
    return command.run(arguments(), act)


def arguments() -> argparse.ArgumentParser:
    example = (
        "sudo infinity-model pull BAAI/bge-reranker-base\n"
        "  sudo infinity-model export bge-reranker-base.tar BAAI/bge-reranker-base\n"
        "  sudo infinity-model import bge-reranker-base.tar"
    )
    parser = command.parser("infinity-model", __doc__, example)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    listing = verbs.add_parser("list", help="what the cache has, and what of it is served")
    listing.add_argument("--json", action="store_true", help="for programs")
    pulling = verbs.add_parser("pull", help="fetch a model that the cache does not have")
    pulling.add_argument("id", metavar="ID[@REV]")
    pulling.add_argument("--allow-pickle", action="store_true", help="weights of any format")
    pulling.add_argument("--trust-remote-code", action="store_true", help="Python files too")
    exporting = verbs.add_parser("export", help="write a model of the cache into a new file")
    exporting.add_argument("file", type=Path, metavar="FILE")
    exporting.add_argument("id", metavar="ID[@REV]")
    importing = verbs.add_parser("import", help="lay the model in a file into the cache")
    importing.add_argument("file", type=Path, metavar="FILE")
    return parser


def act(options: argparse.Namespace, gate: Gate) -> None:
    if options.verb == "list":
        return table(gate, as_json=options.json)
    if options.verb != "import":
        check(options.id)
    with locked(gate.paths.server_lock, BUSY, 0), command.unchanged():
        if options.verb == "pull":
            pull(options, gate)
        elif options.verb == "export":
            export(options.file, options.id, gate)
        else:
            bring(options.file, gate)
    return None


def check(given: str) -> None:
    try:
        model_set.check_id(given)
    except ApplianceError as error:
        raise UsageError(error.message, error.hint) from error


def table(gate: Gate, *, as_json: bool) -> None:
    serving = model_switch.environment(gate.paths).get("MODEL", "")
    served = [part.strip() for part in serving.split(";")]
    with carry.as_user(owner(gate)):
        rows = [
            {
                "id": model.repo,
                "revision": model.commit,
                "refs": list(model.refs),
                "bytes": model.size,
                "served": any(
                    f"{model.repo}@{name}" in served for name in (model.commit, *model.refs)
                )
                or (model.repo in served and "main" in model.refs),
            }
            for model in hub.cached(gate.paths.hub)
        ]
    if as_json:
        print(json.dumps({"models": rows}, indent=2))
        return
    for row in rows:
        note = "  served" if row["served"] else ""
        name = f"{row['id']}@{str(row['revision'])[:12]}"
        print(f"{name:<60} {int(str(row['bytes'])) / 1e6:>9.1f} MB{note}")


def pull(options: argparse.Namespace, gate: Gate) -> None:
    wanted = Wanted(
        (options.id,),
        allow_pickle=options.allow_pickle,
        trust_remote_code=options.trust_remote_code,
    )
    with show.progress() as watch:
        model_switch.ensure_cached(wanted, gate.paths, watch, offline=False)
    show.say(f"{options.id} is in the cache.")


def export(file: Path, given: str, gate: Gate) -> None:
    if os.path.lexists(file):
        raise ApplianceError(f"{file} exists.", "Name a new file.")
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as out:
            with carry.as_user(owner(gate)):
                model = carry.find(gate.paths.hub, given)
                said = carry.write(model, out)
                out.flush()
            os.fchmod(out.fileno(), 0o644)  # no secret, and often another user carries it
            os.fsync(out.fileno())
        os.link(temporary, file)  # unlike a rename, never onto what came to be there meanwhile
    finally:
        os.unlink(temporary)
    show.say(
        f"{file}: {said.id}@{said.revision}, {len(said.files)} files, {said.size / 1e6:.1f} MB"
    )


def bring(file: Path, gate: Gate) -> None:
    with file.open("rb") as opened, carry.as_user(owner(gate)):
        os.umask(0o022)
        said = carry.read(opened, gate.paths.hub)
    show.say(f"{said.id}@{said.revision} is in the cache, {len(said.files)} files, as it was made.")
    name = said.id if said.ref == "main" else f"{said.id}@{said.ref or said.revision}"
    show.say(f"`infinity-set-model --offline {name}` serves it.")


def owner(gate: Gate) -> tuple[int, int] | None:
    """Who the cache belongs to, on an instance."""
    if not gate.is_service:
        return None
    entry = pwd.getpwnam(USER)
    return (entry.pw_uid, entry.pw_gid)


if __name__ == "__main__":
    sys.exit(main())
