"""What may be a host name, and that nothing else reaches nginx or a certificate."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance import names, render
from appliance.errors import ApplianceError
from appliance.paths import Paths
from appliance.settings import Settings


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("embeddings.example.com", "embeddings.example.com"),
        ("EMBEDDINGS.Example.com", "embeddings.example.com"),
        ("localhost", "localhost"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("203.0.113.7", "203.0.113.7"),
        ("2001:DB8::1", "[2001:db8::1]"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("a" * 63 + ".example", "a" * 63 + ".example"),
    ],
)
def test_names_and_addresses_have_one_form(written: str, used: str) -> None:
    assert names.normal(written) == used


@pytest.mark.parametrize(
    "written",
    [
        *("", " ", "a b", "a\n", "a;b", "*.a.com", "a..b", "a.", "-a", "a-", "a_b", "$host", "~a"),
        *("a{b", "a" * 64, ".".join(["abcdefgh"] * 30), "256.1.1.1", "1.2.3", "fe80::1%eth0"),
        *("a/b", "a:443"),
    ],
)
def test_everything_else_is_refused(written: str) -> None:
    with pytest.raises(ApplianceError):
        names.normal(written)


@settings(deadline=None)  # the first example imports the template engine
@given(st.text(max_size=300))
def test_no_text_brings_a_metacharacter_into_the_configuration(text: str) -> None:
    try:
        name = names.normal(text)
    except ApplianceError:
        return
    assert re.fullmatch(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]", name)
    site = render.site(Settings(hostname=name, model="m", followed=True), Paths().templates)
    assert f"server_name {name};" in site
