"""What machines are called, and that two checkouts never share one."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from machine import names, overlay, record
from machine.record import MetadataFile, Record

A, B = Path("/srv/a"), Path("/srv/b")
SAVED = Record(7, "i-1", ("/cache/base", "/cache/top"), "key", "bookworm", "owner/model", None)


def test_two_checkouts_have_different_machines_of_one_name(tmp_path: Path) -> None:
    first, second = (names.place("web", checkout, tmp_path) for checkout in (A, B))
    assert first.folder != second.folder
    assert {first.router, first.inside}.isdisjoint({second.router, second.inside})
    assert first == names.place("web", A, tmp_path)


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "a_b", "a.b", "../x", "a" * 33, "a b", "a\n"]
)
def test_a_name_that_is_no_host_name_is_refused(name: str) -> None:
    with pytest.raises(ApplianceError):
        names.place(name)


def test_full_name_fits_a_host_name_of_nspawn(tmp_path: Path) -> None:
    assert len(names.place("a" * 32, A, tmp_path).full) <= 64


def test_cache_root_follows_environment_then_user() -> None:
    assert names.cache_root({"INFINITY_APPLIANCE_CACHE": "/x"}, 0) == Path("/x")
    assert names.cache_root({}, 0) == Path("/var/cache/infinity-appliance")
    assert names.cache_root({"HOME": "/home/me"}, 1000) == Path(
        "/home/me/.cache/infinity-appliance"
    )


def test_every_place_lists_this_checkout_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFINITY_APPLIANCE_CACHE", str(tmp_path))
    for checkout in (names.CHECKOUT, A):
        names.place("web-1", checkout, tmp_path / "machines").folder.mkdir(parents=True)
    assert [place.name for place in names.every_place()] == ["web-1"]


def test_record_survives_its_file(tmp_path: Path) -> None:
    place = names.place("web", A, tmp_path)
    place.folder.mkdir()
    record.save(place, SAVED)
    assert record.load(place) == SAVED
    assert place.record.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"index": 1}'])
def test_half_a_record_is_told_with_the_way_out(tmp_path: Path, text: str) -> None:
    place = names.place("web", A, tmp_path)
    place.folder.mkdir()
    place.record.write_text(text)
    with pytest.raises(ApplianceError) as caught:
        record.load(place)
    assert "down --name web" in caught.value.hint


def test_missing_record_is_told(tmp_path: Path) -> None:
    with pytest.raises(ApplianceError, match="There is no machine 'web'"):
        record.load(names.place("web", A, tmp_path))


def test_metadata_file_behaves_as_a_mapping(tmp_path: Path) -> None:
    mapping = MetadataFile(tmp_path / "metadata.json")
    mapping.replace({"a": 1})
    mapping["b"] = None
    mapping.update(c=["x"])
    del mapping["a"]
    assert dict(mapping) == dict(MetadataFile(mapping.path)) == {"b": None, "c": ["x"]}
    with pytest.raises(KeyError):
        del mapping["a"]


def test_overlay_has_the_uppermost_layer_first(tmp_path: Path) -> None:
    place = names.place("web", A, tmp_path)
    options = overlay.options(place, [Path("/l/base"), Path("/l/top")]).split(",")
    assert "lowerdir=/l/top:/l/base" in options
    assert f"upperdir={place.upper}" in options


@pytest.mark.parametrize("path", ["/l/a,b", "/l/a:b", "/l/a\\b"])
def test_overlay_refuses_a_path_it_would_misread(tmp_path: Path, path: str) -> None:
    with pytest.raises(ApplianceError, match="comma, colon or backslash"):
        overlay.options(names.place("web", A, tmp_path), [Path(path)])
