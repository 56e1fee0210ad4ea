"""Text of files from settings and secrets: no value changes what a file means."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance import identity, render
from appliance.errors import ApplianceError
from appliance.identity import Identity
from appliance.paths import Paths
from appliance.settings import Ports, Settings

TEMPLATES = Paths().templates
WHO = Identity("inf-" + "0a" * 24, "a password")


def settings(
    hostname: str = "a.test",
    *,
    aliases: tuple[str, ...] = (),
    ports: Ports = Ports(),  # noqa: B008 - frozen
    ipv6: bool = True,
) -> Settings:
    return Settings(
        hostname=hostname, model="owner/m", followed=True, aliases=aliases, ports=ports, ipv6=ipv6
    )


def test_the_site_names_every_name_and_redirects_each_to_itself() -> None:
    site = render.site(settings("[2001:db8::1]", aliases=("b.test",)), TEMPLATES)
    assert "server_name [2001:db8::1] b.test;" in site
    assert "return 301 https://[2001:db8::1]$request_uri;" in site
    assert "return 301 https://b.test$request_uri;" in site
    assert "{{" not in site
    assert "{%" not in site


def test_ports_of_ones_own_are_in_the_redirect_and_the_listen_lines() -> None:
    site = render.site(settings(ports=Ports(8443, 8080, 7000)), TEMPLATES)
    assert "return 301 https://a.test:8443$request_uri;" in site
    assert "listen 8443 ssl http2;" in site
    assert "listen [::]:8080;" in site
    assert "server 127.0.0.1:7000;" in site


def test_without_ipv6_nothing_listens_on_it() -> None:
    assert "listen [::]" not in render.site(settings(ipv6=False), TEMPLATES)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ nobody_gave_this }}", "nobody_gave_this"),
        ("{% if %}", "does not render"),
        ("{{ https_port / 0 }}", "division by zero"),
        ("{{ hostname + 1 }}", "does not render"),
        ("{% include 'missing' %}", "missing"),
        (b"\xff", "utf-8"),
        (None, "infinity-site.conf.j2"),
    ],
)
def test_a_template_that_does_not_render_is_one_sentence(
    tmp_path: Path, template: str | bytes | None, said: str
) -> None:
    file = tmp_path / render.SITE_TEMPLATE
    if template is not None:
        file.write_bytes(template.encode() if isinstance(template, str) else template)
    with pytest.raises(ApplianceError, match="does not render") as caught:
        render.site(settings(), tmp_path)
    assert said in caught.value.message
    assert "\n" not in str(caught.value)
    assert str(file) in caught.value.hint


def test_the_key_map_is_what_the_gate_check_reads(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.nginx.mkdir(parents=True)
    paths.api_key_map.write_text(render.key_map(WHO))
    assert identity.first_key(paths) == WHO.api_key


def test_a_new_credentials_file_has_its_entries_in_their_order() -> None:
    assert render.credentials(settings(), WHO).splitlines() == [
        "INFINITY_HOST=a.test",
        "INFINITY_URL=https://a.test/",
        "INFINITY_MODEL=owner/m",
        f"INFINITY_API_KEY={WHO.api_key}",
        "INFINITY_USERNAME=admin",
        "INFINITY_PASSWORD=a password",
    ]


def test_what_nobody_knows_is_not_written() -> None:
    written = render.credentials(settings(), Identity(WHO.api_key, ""))
    assert "USERNAME" not in written
    assert "PASSWORD" not in written
    assert "API_KEY" not in render.credentials(settings(), Identity("", "x"))


def test_a_file_that_is_there_keeps_its_lines_and_gets_what_it_lacks() -> None:
    before = "# ours\nINFINITY_API_KEY=old\nNOTE=a=b\x0cc"
    assert render.credentials(settings(), WHO, before).split("\n") == [
        "# ours",
        f"INFINITY_API_KEY={WHO.api_key}",
        "NOTE=a=b\x0cc",
        "INFINITY_HOST=a.test",
        "INFINITY_URL=https://a.test/",
        "INFINITY_MODEL=owner/m",
        "INFINITY_USERNAME=admin",
        "INFINITY_PASSWORD=a password",
        "",
    ]


def test_an_entry_that_the_operator_removed_does_not_come_back() -> None:
    before = "INFINITY_URL=https://old.test/\nINFINITY_PASSWORD=x\n"
    after = render.updated_credentials(before, render.described(settings()))
    assert after == "INFINITY_URL=https://a.test/\nINFINITY_PASSWORD=x\n"
    assert render.updated_credentials(after, render.described(settings())) == after
