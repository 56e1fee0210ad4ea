"""A program that is only unpacked is found without a word: who called it prints its own lines."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from machine import unpacked


def test_a_program_is_unpacked_once_and_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def unpack(package: str, into: Path, hint: str) -> None:
        made.append(f"{package}: {hint}")
        (into / "usr/sbin").mkdir(parents=True)
        shutil.copy("/bin/true", into / "usr/sbin/not-on-path")

    monkeypatch.setenv("INFINITY_APPLIANCE_CACHE", str(tmp_path))
    monkeypatch.setattr(unpacked, "_unpack", unpack)
    first, second = (unpacked.find("not-on-path", "its-package") for _ in range(2))
    assert first == second == tmp_path / "tools/its-package/usr/sbin/not-on-path"
    assert made == ["its-package: Install its-package, or put not-on-path on PATH."]
    assert capfd.readouterr() == ("", "")
