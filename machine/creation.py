"""A new machine before its first boot: image or copied disk, launch key, metadata."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from machine import lifecycle, names, overlay, record
from machine.build import Image, build
from machine.names import Place
from machine.record import MetadataFile, Record


def create(place: Place, source: str | None, image: Image | None) -> None:
    """Make the machine's folder, as another instance than any before.

    Args:
        place: the machine's; what is left there of a half-made one goes.
        source: the name of the machine whose disk to copy, or None for a new one.
        image: what a new one boots; None is the host's release, built if it is not there.
    """
    lifecycle.remove(place)
    original = None if source is None else names.place(source)
    base = record.load(original) if original else _from_image(image or build())
    place.folder.mkdir(parents=True, mode=0o700)
    if original is not None:
        overlay.clone(original, place)
    lifecycle.make_key(place)
    record.save(place, base.renewed("i-0" + secrets.token_hex(8)))


def _from_image(image: Image) -> Record:
    layers = tuple(str(layer) for layer in image.layers)
    return Record(0, "", layers, image.key, image.suite, image.model, None)


def choose_metadata(
    place: Place, document: Mapping[str, object] | None, file: Path | None, *, none: bool
) -> None:
    """Settle what the emulator serves: this document, that file, nothing, or a public identity.

    A machine that had metadata before and is given neither keeps it.
    """
    saved = record.load(place)
    if document is not None or not place.metadata.exists():
        MetadataFile(place.metadata).replace(
            public_identity(saved.instance_id) if document is None else document
        )
    served = None if none else str((file or place.metadata).absolute())
    record.save(place, saved.serving(served))


def public_identity(instance_id: str) -> dict[str, object]:
    """Names that nobody has: RFC 2606 keeps .test free, RFC 5737 the network."""
    number = 1 + secrets.randbelow(254)
    return {
        "instance-id": instance_id,
        "public-hostname": f"ec2-203-0-113-{number}.compute.test",
        "public-ipv4": f"203.0.113.{number}",
    }
