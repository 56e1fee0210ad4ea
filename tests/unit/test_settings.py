"""Settings: who wins when names compete, and a saved file that is not as we wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from appliance import settings
from appliance.errors import ApplianceError
from appliance.facts import Facts
from appliance.imds import MetadataError
from appliance.paths import Paths
from appliance.settings import Ports, Settings

SAVED = Settings(
    hostname="a.example",
    model="owner/model",
    followed=False,
    aliases=("b.example", "[2001:db8::1]"),
    ports=Ports(8443, 8080, 7000),
    ipv6=False,
)
PORTS = Ports()


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path)
    for path in (paths.state, paths.hostname.parent, paths.server_env.parent):
        path.mkdir(parents=True)
    paths.server_env.write_text("MODEL=owner/model\n")
    return paths


def edited(paths: Paths, **changes: object) -> None:
    paths.settings.write_text(settings.as_text(SAVED))
    raw = json.loads(paths.settings.read_text())
    paths.settings.write_text(json.dumps(raw | changes))


def test_what_was_saved_is_loaded(paths: Paths) -> None:
    paths.settings.write_text(settings.as_text(SAVED))
    assert settings.load(paths) == SAVED
    paths.settings.unlink()
    assert settings.load(paths) is None


def test_a_field_of_another_release_does_not_cost_the_others(paths: Paths) -> None:
    edited(paths, from_the_future={"x": 1})
    assert settings.load(paths) == SAVED


@pytest.mark.parametrize("change", [{"hostname": "a; }"}, {"aliases": ["b.example", "*"]}])
def test_a_saved_name_that_is_none_is_refused(paths: Paths, change: dict[str, object]) -> None:
    edited(paths, **change)
    with pytest.raises(ApplianceError, match=r"settings\.json.*neither a DNS name nor"):
        settings.load(paths)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
_FIELDS = st.sampled_from(["hostname", "model", "followed", "aliases", "ports", "ipv6"])


# The file is written anew for each example, which takes as long as the disk takes.
@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_FIELDS, _JSON)
def test_no_saved_value_is_a_traceback_or_a_name_that_is_none(
    paths: Paths, field: str, value: object
) -> None:
    edited(paths, **{field: value})
    try:
        loaded = settings.load(paths)
    except ApplianceError:
        return
    if loaded is not None:
        assert not set("".join((loaded.hostname, *loaded.aliases))) & set(" ;{}$\"'\n*")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_a_file_that_is_no_settings_counts_as_none(paths: Paths, text: str) -> None:
    paths.settings.write_text(text)
    assert settings.load(paths) is None


def choose(paths: Paths, facts: Facts, previous: Settings | None = None) -> Settings:
    return settings.choose(facts, paths, PORTS, ipv6=True, previous=previous)


def test_the_operators_name_then_metadatas_then_the_last_one(paths: Paths) -> None:
    told = Facts(public_hostname="m.example")
    assert choose(paths, Facts(), SAVED).hostname == SAVED.hostname
    assert choose(paths, told, SAVED).hostname == "m.example"
    assert choose(paths, told, SAVED).followed
    paths.hostname.write_text("# ours\n\n  Chosen.Example  \n")
    assert choose(paths, told, SAVED).hostname == "chosen.example"
    assert not choose(paths, told, SAVED).followed


def test_aliases_outlive_a_boot_and_none_is_the_name_itself(paths: Paths) -> None:
    assert choose(paths, Facts(public_hostname="m.example"), SAVED).aliases == SAVED.aliases
    assert (
        choose(paths, Facts(public_hostname=SAVED.aliases[0]), SAVED).aliases == SAVED.aliases[1:]
    )


def test_no_name_says_why(paths: Paths) -> None:
    with pytest.raises(ApplianceError, match=r"no host name to serve\. It is silent\."):
        choose(paths, Facts(problem=MetadataError("It is silent.")))
    with pytest.raises(ApplianceError, match="no name or address"):
        choose(paths, Facts())


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n"])
def test_a_file_without_a_name_chooses_none(paths: Paths, text: str) -> None:
    paths.hostname.write_text(text)
    assert settings.operator_hostname(paths.hostname) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a.example\nb.example\n", "more than one line"),
        (b"\xff\xfea\x00", "cannot be read"),
        (b"a.example; }", "neither a DNS name nor"),
    ],
)
def test_a_file_with_anything_but_a_name_is_refused(
    paths: Paths, content: bytes, said: str
) -> None:
    paths.hostname.write_bytes(content)
    with pytest.raises(ApplianceError, match=said):
        settings.operator_hostname(paths.hostname)


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("MODEL=owner/model", "owner/model"),
        ('MODEL="owner/model"', "owner/model"),
        ("MODEL=owner/model@0123abc;owner/second", "owner/model"),
        ("MODEL=owner/model\nINFINITY_SERVED_MODEL_NAME=public;second", "public"),
        ("MODEL=owner/model\nINFINITY_SERVED_MODEL_NAME=", "owner/model"),
        ("MODEL=owner/old\nMODEL=owner/model", "owner/model"),
        ("XMODEL=a\nMODEL=owner/model", "owner/model"),
    ],
)
def test_the_first_model_is_what_clients_name(paths: Paths, line: str, model: str) -> None:
    paths.server_env.write_text(f"DTYPE=float32\n{line}\n")
    found = settings.configured_model(paths.server_env)
    assert found == model


@pytest.mark.parametrize("text", ["", "MODEL=\n", "DTYPE=float32\n", 'MODEL=""\n'])
def test_no_model_is_one_sentence(paths: Paths, text: str) -> None:
    paths.server_env.write_text(text)
    with pytest.raises(ApplianceError, match="names no model") as caught:
        settings.configured_model(paths.server_env)
    assert caught.value.hint


def test_another_port_is_part_of_the_url() -> None:
    assert SAVED.url == "https://a.example:8443/"
    assert Settings(hostname="a.example", model="m", followed=True).url == "https://a.example/"
