"""What an instance's metadata tree looks like, made from one flat JSON document; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

VERSIONS = ("1.0", "2009-04-04", "2016-09-02", "2018-09-24", "2020-10-27", "2021-03-23", "latest")
RESERVED = ("user-data", "fault")
REGION = "us-east-1"

Tree: TypeAlias = "dict[str, Tree | str]"


def lookup(document: Mapping[str, object], path: str) -> str | None:
    """Answer one GET as the service does.

    Args:
        document: the metadata as the file names it; a key may contain slashes, a value may
            be text, a number, a list (one item a line) or a nested mapping; null is absent.
        path: the request's path, such as ``/latest/meta-data/instance-id``.

    Returns:
        The body; a folder's body is its listing. None is 404.
    """
    version, _, rest = path.strip("/").partition("/")
    if not version:
        return "\n".join(VERSIONS)
    if version not in VERSIONS:
        return None
    node: Tree | str = _root(document)
    for part in filter(None, rest.split("/")):
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    if isinstance(node, str):
        return node
    if rest.rstrip("/") == "meta-data/public-keys":
        return "\n".join(f"{index}={name}" for index, (name, _) in enumerate(_keys(document)))
    return "\n".join(name + "/" * isinstance(node[name], dict) for name in sorted(node))


def _root(document: Mapping[str, object]) -> Tree:
    meta: Tree = {}
    for key, value in document.items():
        if key not in (*RESERVED, "public-keys") and value is not None:
            _place(meta, key, value)
    if keys := _keys(document):
        meta["public-keys"] = {
            str(index): {"openssh-key": key} for index, (_, key) in enumerate(keys)
        }
    root: Tree = {
        "meta-data": meta,
        "dynamic": {"instance-identity": {"document": _identity_document(document)}},
    }
    if document.get("user-data") is not None:
        root["user-data"] = str(document["user-data"])
    return root


def _place(tree: Tree, key: str, value: object) -> None:
    *folders, name = key.strip("/").split("/")
    for folder in folders:
        inner = tree.setdefault(folder, {})
        if isinstance(inner, str):  # a leaf of that name came first: the folder wins
            inner = tree[folder] = {}
        tree = inner
    if isinstance(value, Mapping):
        for inner_key, inner_value in value.items():
            if inner_value is not None:
                _place(tree, f"{name}/{inner_key}", inner_value)
    elif isinstance(value, list):
        tree[name] = "\n".join(str(item) for item in value)
    else:
        tree[name] = str(value)


def _keys(document: Mapping[str, object]) -> list[tuple[str, str]]:
    """(name, OpenSSH public key) in the order of their indexes."""
    given = document.get("public-keys")
    if isinstance(given, str):
        given = [given] if given.strip() else []
    if isinstance(given, list):
        return [(_comment(str(key)), str(key)) for key in given]
    if isinstance(given, Mapping):
        return [
            (_comment(str(key)) if str(name).isdigit() else str(name), str(key))
            for name, key in given.items()
        ]
    return []


def _comment(key: str) -> str:
    """The comment of a public key serves as the key pair's name."""
    words = key.split()
    return words[2] if len(words) > 2 else "launch"  # noqa: PLR2004 - type, key, comment


def _identity_document(document: Mapping[str, object]) -> str:
    zone = str(document.get("placement/availability-zone") or f"{REGION}a")
    return json.dumps(
        {
            "accountId": "123456789012",
            "architecture": "x86_64",
            "availabilityZone": zone,
            "imageId": document.get("ami-id"),
            "instanceId": document.get("instance-id"),
            "instanceType": document.get("instance-type"),
            "privateIp": document.get("local-ipv4"),
            "region": zone.rstrip("abcdef"),
            "version": "2017-09-30",
        },
        indent=2,
    )


def instance_defaults(address: str, mac: str) -> dict[str, object]:
    """What every instance has, whatever the file says: addresses, type, zone, one interface."""
    name = f"ip-{address.replace('.', '-')}.ec2.internal"
    return {
        "ami-id": "ami-00000000000000000",
        "hostname": name,
        "instance-type": "m5.large",
        "local-hostname": name,
        "local-ipv4": address,
        "mac": mac,
        "placement/availability-zone": f"{REGION}a",
        "placement/region": REGION,
        f"network/interfaces/macs/{mac}": {
            "device-number": "0",
            "local-hostname": name,
            "local-ipv4s": address,
            "mac": mac,
        },
    }
