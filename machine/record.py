"""What is written down about a machine, so that later commands find it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.files import write_atomic
from machine.names import Place


@dataclass(frozen=True)
class Record:
    """A machine's image and network.

    Attributes:
        index: of its network, 1 to 254; 0 before it has one.
        instance_id: what the emulator says when its file names none.
        layers: the image's folders, lowest first; the machine keeps them until it is down.
        key: the image's content key.
        suite: the distribution's release, such as ``bookworm``.
        model: the id of the bundled model.
        metadata: the file the emulator serves; None for a machine without metadata.
    """

    index: int
    instance_id: str
    layers: tuple[str, ...]
    key: str
    suite: str
    model: str
    metadata: str | None

    def renewed(self, instance_id: str) -> Record:
        """The same image as another instance."""
        return replace(self, instance_id=instance_id)

    def serving(self, metadata: str | None) -> Record:
        return replace(self, metadata=metadata)


def save(place: Place, record: Record) -> None:
    write_atomic(place.record, json.dumps(asdict(record), indent=2) + "\n", 0o600)


def load(place: Place) -> Record:
    """Read the record.

    Raises:
        ApplianceError: there is no such machine, or only half of one.
    """
    try:
        saved = json.loads(place.record.read_text())
        return Record(**{**saved, "layers": tuple(saved["layers"])})
    except FileNotFoundError:
        raise ApplianceError(
            f"There is no machine {place.name!r}.",
            f"`python3 -m machine up --name {place.name}` makes it.",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ApplianceError(
            f"The record of machine {place.name!r} cannot be read: {error}.",
            f"`python3 -m machine down --name {place.name}` clears it away.",
        ) from error


class MetadataFile(MutableMapping[str, object]):
    """A JSON file as a mapping: each change is in the file, whole, before it returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _read(self) -> dict[str, object]:
        loaded = json.loads(self.path.read_text())
        return loaded if isinstance(loaded, dict) else {}

    def replace(self, document: Mapping[str, object]) -> None:
        """Say this and nothing else."""
        write_atomic(self.path, json.dumps(dict(document), indent=2) + "\n", 0o600)

    def __getitem__(self, key: str) -> object:
        return self._read()[key]

    def __setitem__(self, key: str, value: object) -> None:
        self.replace(self._read() | {key: value})

    def __delitem__(self, key: str) -> None:
        document = self._read()
        del document[key]
        self.replace(document)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())
