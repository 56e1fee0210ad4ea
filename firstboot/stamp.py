"""Whose identity is on this disk, and is it whole?"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass

from appliance.facts import Facts
from appliance.files import write_atomic
from appliance.paths import Paths


@dataclass(frozen=True)
class Stamp:
    """``instance_id`` is None when nothing told it; ``machine`` is a hash of the machine-id.

    ``done`` is False from before the first file is written until after the last.
    """

    instance_id: str | None
    machine: str
    done: bool

    def is_of(self, facts: Facts, paths: Paths) -> bool:
        """Whether this disk still belongs to the instance it was stamped for.

        An instance that cannot tell its id now keeps its identity; one that could not tell
        it then is known by its machine-id.
        """
        if facts.instance_id is None:
            return True
        if self.instance_id is None:
            return self.machine == machine_hash(paths)
        return self.instance_id == facts.instance_id


def load(paths: Paths) -> Stamp | None:
    """The stamp; None on a disk that no instance has used. A broken one is nobody's."""
    try:
        raw = json.loads(paths.stamp.read_text("utf-8"))
        return Stamp(raw["instance_id"], raw["machine"], raw["done"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        return Stamp(instance_id="unreadable", machine="", done=False)


def save(stamp: Stamp, paths: Paths) -> None:
    write_atomic(paths.stamp, json.dumps(dataclasses.asdict(stamp)) + "\n", 0o600)


def machine_hash(paths: Paths) -> str:
    """The machine-id itself is not to be passed around (machine-id(5))."""
    try:
        return hashlib.sha256(paths.machine_id.read_bytes().strip()).hexdigest()
    except OSError:
        return ""
