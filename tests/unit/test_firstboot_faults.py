"""Accidents: each is one sentence with a hint, nothing that worked is lost, the next boot mends."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from firstboot_support import FIRST, HOST, OTHER_HOST, SECOND, Disk, Metadata, metadata

from appliance.errors import ApplianceError
from appliance.imds import MetadataError
from appliance.paths import Paths
from firstboot.__main__ import main
from firstboot.steps import identity_files
from machine.imds import Emulator


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk.fresh(tmp_path / "root")


@contextmanager
def emulator(folder: Path, **said: str) -> Iterator[str]:
    file = folder / "metadata.json"
    file.write_text(json.dumps({key.replace("_", "-"): value for key, value in said.items()}))
    server = Emulator(("127.0.0.1", 0), file)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def command(disk: Disk, url: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The command line with a short patience."""
    root, program = str(disk.paths.root), disk.gate.program
    argv = ["firstboot", "--root", root, "--imds-url", url, "--nginx", program]
    monkeypatch.setattr(sys, "argv", [*argv, "--patience", "0.4"])
    return main()


def own_lines(stderr: str) -> list[str]:
    """Without the emulator's log of requests, which shares this process."""
    return [line for line in stderr.split("\n") if line and not line.startswith("127.0.0.1 - - [")]


@pytest.mark.parametrize("fault", ["unauthorized", "error", "garbage", "hang", "absent"])
def test_a_broken_metadata_service_is_one_sentence_and_exit_status_1(
    disk: Disk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    with emulator(tmp_path, fault=fault) as url:
        assert command(disk, url, monkeypatch) == 1
    said = capsys.readouterr()
    told = own_lines(said.err)
    assert said.out == ""
    assert len(told) == 1
    assert told[0].startswith("infinity-firstboot: There is no host name to serve. The instance")
    assert "Hint: " in told[0]
    assert not any(path.exists() for path in identity_files(disk.paths))
    with emulator(tmp_path, instance_id=FIRST, public_hostname=HOST) as url:
        assert command(disk, url, monkeypatch) == 0
    assert capsys.readouterr().out == f"infinity-firstboot: Infinity is served at https://{HOST}/\n"
    disk.assert_whole()


@pytest.mark.parametrize(
    "value", ["a.test\x00", "a.test\r\nX: y", "a\x1b[2J.test", "a;b", "\u202ea"]
)
def test_no_odd_value_of_metadata_gets_anywhere(
    disk: Disk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    value: str,
) -> None:
    with emulator(tmp_path, instance_id=FIRST, public_hostname=value) as url:
        assert command(disk, url, monkeypatch) == 1
    told = own_lines(capsys.readouterr().err)
    assert len(told) == 1
    assert told[0].isprintable()
    assert not disk.paths.nginx_site.exists()


class HalfSilent(Metadata):
    """Tells the id and then falls silent."""

    def get(self, path: str) -> str | None:
        if path != "meta-data/instance-id":
            raise MetadataError("Silent.")
        return super().get(path)


def test_a_copy_that_only_learns_its_id_does_not_keep_the_originals_secrets(disk: Disk) -> None:
    disk.paths.hostname.write_text(HOST)
    disk.boot()
    old = disk.secrets()
    disk.boot(HalfSilent(values={"instance-id": SECOND}))
    disk.assert_whole()
    assert all(new != before for new, before in zip(disk.secrets(), old, strict=True))


def identity_of(disk: Disk) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in identity_files(disk.paths) if path.exists()}


class FullDisk:
    """Lets so many steps that need space pass; the next one finds none."""

    def __init__(self, passing: int) -> None:
        self.left = passing

    def steps(self) -> dict[str, Callable[..., None]]:
        return {name: self._counted(getattr(os, name)) for name in ("link", "fchmod", "fsync")}

    def _counted(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(*args: int, **kwargs: bool) -> None:
            if real is os_fsync and stat.S_ISDIR(os.fstat(args[0]).st_mode):
                return real(*args)  # a folder's needs no space
            self.left -= 1
            if self.left == -1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        return call


os_fsync = os.fsync


def boot_on_full_disk(disk: Disk, passing: int, patch: pytest.MonkeyPatch) -> ApplianceError | None:
    """Boot under another name; returns what went wrong."""
    with patch.context() as patched:
        for name, step in FullDisk(passing).steps().items():
            patched.setattr(os, name, step)
        try:
            disk.boot(metadata(FIRST, OTHER_HOST))
        except ApplianceError as error:
            return error
    return None


def test_a_full_disk_leaves_the_old_files_and_is_mended_by_the_next_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Disk.fresh(tmp_path / "original")
    original.boot()
    for passing in itertools.count():
        root = tmp_path / f"full-{passing}"
        shutil.copytree(original.paths.root, root)
        disk = Disk(Paths(root))
        before = identity_of(disk)
        error = boot_on_full_disk(disk, passing, monkeypatch)
        if error is None:
            break
        assert "No space left on device" in error.message
        assert error.hint
        if disk.paths.stamp.name not in error.message:  # the last write, when all is in place
            assert identity_of(disk) == before
        disk.boot(metadata(FIRST, OTHER_HOST))
        disk.assert_whole(OTHER_HOST)
        assert disk.secrets() == original.secrets()
    assert passing > len(("stamp", "settings", "site", "credentials", "certificate", "stamp"))


def test_an_interrupted_write_leaves_no_secret_to_a_copy(disk: Disk) -> None:
    disk.boot()
    leftovers = [
        path.with_name(f".{path.name}.{what}")
        for path in identity_files(disk.paths)
        for what in ("before", "x1y2.new")
    ]
    for path in leftovers:
        path.write_text("a secret of the original")
    disk.boot(metadata(SECOND))
    assert not [path for path in leftovers if path.exists()]
    disk.assert_whole()


def test_a_link_of_a_killed_run_is_not_taken_for_the_present_file(disk: Disk) -> None:
    disk.boot()
    stale = disk.paths.certificate.with_name(".infinity.crt.before")
    os.link(disk.paths.certificate, stale)
    disk.boot(metadata(FIRST, OTHER_HOST))
    disk.assert_whole(OTHER_HOST)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"instance_id": 1}', "\xff"])
def test_a_stamp_that_is_none_means_another_instance(disk: Disk, text: str) -> None:
    disk.boot()
    old = disk.secrets()
    disk.paths.stamp.write_text(text, "latin-1")
    disk.boot()
    disk.assert_whole()
    assert disk.secrets() != old
