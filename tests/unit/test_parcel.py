"""A model carried as a tar arrives as it was sent, or not at all; whoever made the tar."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance import carry, hub, parcel
from appliance.errors import ApplianceError

REPO, COMMIT = "owner/name", "a" * 40
CONTENTS = {"config.json": b"{}", "1_Pooling/config.json": b"[]", "model.safetensors": b"w" * 3000}
Members = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture
def sender(tmp_path: Path) -> Path:
    """A cache with one model."""
    return cache(tmp_path / "sender", CONTENTS)


@pytest.fixture
def receiver(tmp_path: Path) -> Path:
    """An empty cache."""
    made = tmp_path / "receiver"
    made.mkdir()
    return made


def cache(made: Path, contents: dict[str, bytes]) -> Path:
    folder = hub.folder(made, REPO)
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(COMMIT)
    for number, (name, data) in enumerate(contents.items()):
        blob = folder / "blobs" / str(number)
        link = folder / "snapshots" / COMMIT / name
        for path in (blob, link):
            path.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(data)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return made


def sent(sender: Path) -> bytes:
    out = io.BytesIO()
    carry.write(carry.find(sender, REPO), out)
    return out.getvalue()


def arrived(receiver: Path) -> dict[str, bytes]:
    model = carry.find(receiver, REPO)
    return {name: (model.snapshot / name).read_bytes() for name in model.files}


def test_a_model_arrives_as_it_was_sent(sender: Path, receiver: Path) -> None:
    said = carry.read(io.BytesIO(sent(sender)), receiver)
    assert (said.id, said.revision, said.ref) == (REPO, COMMIT, "main")
    assert arrived(receiver) == CONTENTS
    shutil.rmtree(sender)
    assert arrived(receiver) == CONTENTS, "nothing leads out of the receiver's cache"
    assert [path.name for path in receiver.iterdir()] == ["models--owner--name"]


def test_two_exports_are_one_file(sender: Path) -> None:
    assert sent(sender) == sent(sender)


def test_it_replaces_what_was_damaged_and_repeats(sender: Path, receiver: Path) -> None:
    tar = sent(sender)
    carry.read(io.BytesIO(tar), receiver)
    model = carry.find(receiver, REPO)
    (model.snapshot / "model.safetensors").resolve().write_bytes(b"damaged")
    for _ in range(2):
        carry.read(io.BytesIO(tar), receiver)
        assert arrived(receiver) == CONTENTS


def plain(name: str, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    return member, data


def opened(tar: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(tar)) as read:
        return [(member, taken(read, member)) for member in read]


def taken(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = tar.extractfile(member)
    assert content is not None
    return content.read()


def packed(members: Members, form: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for member, data in members:
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def said_otherwise(members: Members, change: Callable[[dict[str, Any]], object]) -> Members:
    """The tar with another manifest."""
    raw = json.loads(members[0][1])
    change(raw)
    return [plain(parcel.MANIFEST, json.dumps(raw).encode()), *members[1:]]


def renamed(name: str) -> Callable[[Members], Members]:
    """A file under another name, in the manifest and as a member."""

    def change(members: Members) -> Members:
        content = json.loads(members[0][1])["files"]["config.json"]
        data = dict(CONTENTS)["config.json"]
        named = said_otherwise(members, lambda raw: raw.update(files={name: content}))
        return [named[0], plain(parcel.FILES + name, data)]

    return change


def typed(kind: bytes, target: str) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        odd = tarfile.TarInfo(members[1][0].name)
        odd.type, odd.linkname = kind, target
        return [members[0], (odd, b""), *members[2:]]

    return change


def other_data(members: Members) -> Members:
    return [*members[:-1], plain(members[-1][0].name, b"x" * len(members[-1][1]))]


def longer(members: Members) -> Members:
    return [*members[:-1], plain(members[-1][0].name, members[-1][1] + b"w")]


def manifest(**changes: object) -> Callable[[Members], Members]:
    return lambda members: said_otherwise(members, lambda raw: raw.update(changes))


def twice_in_the_manifest(members: Members) -> Members:
    text = members[0][1].decode().replace('"ref"', '"id"', 1)
    return [plain(parcel.MANIFEST, text.encode()), *members[1:]]


HOSTILE: dict[str, Callable[[Members], Members]] = {
    "another content": other_data,
    "a longer content": longer,
    "a file too few": lambda members: members[:-1],
    "a file too many": lambda members: [*members, plain("files/more.json", b"{}")],
    "a file twice": lambda members: [*members, members[-1]],
    "another order": lambda members: [members[0], *reversed(members[1:])],
    "no manifest": lambda members: members[1:],
    "two manifests": lambda members: [members[0], *members],
    "an absolute name": renamed("/etc/cron.d/evil"),
    "a name that leads out": renamed("../../evil"),
    "a name that leads out later": renamed("x/../../../evil"),
    "a hidden name": renamed(".bashrc"),
    "a name with a line's end": renamed("a\nb"),
    "a name with a backslash": renamed("a\\b"),
    "an empty name": renamed(""),
    "a symbolic link": typed(tarfile.SYMTYPE, "/etc/shadow"),
    "a hard link": typed(tarfile.LNKTYPE, "../../../../../../etc/shadow"),
    "a device": typed(tarfile.CHRTYPE, ""),
    "a fifo": typed(tarfile.FIFOTYPE, ""),
    "a folder": typed(tarfile.DIRTYPE, ""),
    "a sparse file": typed(tarfile.GNUTYPE_SPARSE, ""),
    "an id that leads out": manifest(id="../x"),
    "an id of two folders": manifest(id="a--b/c"),
    "a commit that leads out": manifest(revision="../" + "a" * 37),
    "a branch that leads out": manifest(ref="../../x"),
    "an absolute branch": manifest(ref="/etc/x"),
    "another format": manifest(format=2),
    "no files": manifest(files={}),
    "files that are none": manifest(files=[1]),
    "a negative size": manifest(files={"a": {"sha256": "0" * 64, "size": -1}}),
    "a sha256 that leads out": manifest(files={"a": {"sha256": "../../../x", "size": 0}}),
    "a field twice": twice_in_the_manifest,
    "more than the disk holds": manifest(files={"a": {"sha256": "0" * 64, "size": 2**60}}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_was_tampered_with_is_refused_and_leaves_nothing(
    sender: Path, receiver: Path, tmp_path: Path, kind: str
) -> None:
    tar = packed(HOSTILE[kind](opened(sent(sender))))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ApplianceError) as raised:
        carry.read(io.BytesIO(tar), receiver)
    assert raised.value.hint
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tar: tar[:0],
        lambda tar: b"no tar" * len(tar),
        lambda tar: tar[:700],
        lambda tar: tar[: len(tar) // 2],
        lambda tar: tar + b"more",
        lambda tar: b"\x1f\x8b" + tar,
    ],
    ids=["empty", "text", "cut in the manifest", "cut", "something after it", "compressed"],
)
def test_a_damaged_file_is_refused(
    sender: Path, receiver: Path, spoil: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(ApplianceError, match="not a model"):
        carry.read(io.BytesIO(spoil(sent(sender))), receiver)
    assert not list(receiver.iterdir())


def test_extended_headers_are_refused(sender: Path, receiver: Path) -> None:
    members = opened(sent(sender))
    members[1][0].pax_headers = {"GNU.sparse.realsize": "9" * 12}
    with pytest.raises(ApplianceError, match="no plain file"):
        carry.read(io.BytesIO(packed(members, tarfile.PAX_FORMAT)), receiver)


def test_a_header_cannot_ask_for_gigabytes_of_memory(receiver: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2**33
    with pytest.raises(ApplianceError, match="asks for too much"):
        carry.read(io.BytesIO(header.tobuf(tarfile.GNU_FORMAT) + b"x" * 2048), receiver)


def test_a_full_disk_leaves_the_cache_as_it_was(
    sender: Path, receiver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parcel, "copy", full)
    with pytest.raises(ApplianceError, match="No space left"):
        carry.read(io.BytesIO(sent(sender)), receiver)
    assert not list(receiver.iterdir())


def test_what_a_killed_import_left_does_not_matter(sender: Path, receiver: Path) -> None:
    left = receiver / hub.IMPORTING / "blobs"
    left.mkdir(parents=True)
    (left / "half").write_bytes(b"half")
    carry.read(io.BytesIO(sent(sender)), receiver)
    assert arrived(receiver) == CONTENTS
    assert not (receiver / hub.IMPORTING).exists()


def test_a_commit_is_found_under_each_of_its_names(sender: Path) -> None:
    for given in (REPO, f"{REPO}@main", f"{REPO}@{COMMIT}"):
        assert carry.find(sender, given).commit == COMMIT
    for given in ("owner/other", f"{REPO}@v2"):
        with pytest.raises(ApplianceError, match="not in the cache"):
            carry.find(sender, given)


def test_the_manifest_holds_the_sha256_of_every_file(sender: Path) -> None:
    said = json.loads(opened(sent(sender))[0][1])
    for name, data in CONTENTS.items():
        wanted = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        assert said["files"][name] == wanted
