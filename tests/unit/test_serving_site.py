"""The pages for a browser, without one: what they say, escape and load, and the certificate."""

from __future__ import annotations

import asyncio
import datetime as dt
import html
import re
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gate_harness import Gate, free_ports

from appliance import tls
from appliance.serving import certificate, openapi
from appliance.serving.answers import Answer
from appliance.serving.catalog import Catalog
from appliance.serving.certificate import Certificate
from appliance.serving.errors import ApiError
from appliance.serving.metrics import Metrics
from appliance.serving.models import Served
from appliance.serving.site import PAGES, Site
from appliance.serving.watchdog import Health

HOSTILE = 'it\'s <b>"bold"</b>'
BROWSER = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
SNIPPET = re.compile(r'<pre data-language="(\w+)"[^>]*><code>(.*?)</code></pre>', re.DOTALL)


def model(name: str, task: str, size: int = 0, smaller: tuple[int, ...] = ()) -> Served:
    made = SimpleNamespace(name=name, capabilities=(task,), dimensions=size, matryoshka=smaller)
    return cast("Served", made)


@pytest.fixture
def site() -> Site:
    catalog = Catalog(
        [model(HOSTILE, "embed", 384, (128,)), model("ranker", "rerank"), model("c", "classify")],
        {"text-embedding-3-small": HOSTILE},
    )
    health = cast("Health", SimpleNamespace(ready=True))
    return Site("0.0.77", catalog, health, Metrics(), lambda: openapi.document("0.0.77", catalog))


def ask(site: Site, path: str, host: bytes = b"h.example", accept: bytes = BROWSER) -> Answer:
    return asyncio.run(site.answer(path, {b"host": host, b"accept": accept}))


def text(answer: Answer) -> str:
    return b"".join(answer.chunks).decode()


def show(monkeypatch: pytest.MonkeyPatch, seen: Certificate | None) -> list[int]:
    """What the gate is to present; returns the ports on which it is asked for."""
    asked: list[int] = []

    def shown(port: int) -> Certificate | None:
        asked.append(port)
        return seen

    monkeypatch.setattr(certificate, "shown", shown)
    return asked


def in_days(days: float, *, own_issuer: bool = True) -> Certificate:
    return Certificate(dt.datetime.now(dt.UTC) + dt.timedelta(days=days), own_issuer)


@pytest.mark.parametrize("own_issuer", [True, False])
def test_snippets_are_programs_for_this_host_whatever_a_model_is_called(
    monkeypatch: pytest.MonkeyPatch, site: Site, *, own_issuer: bool
) -> None:
    show(monkeypatch, in_days(90, own_issuer=own_issuer))
    page = text(ask(site, "/", b"h.example:8443"))
    assert HOSTILE not in page
    snippets = [(language, html.unescape(code)) for language, code in SNIPPET.findall(page)]
    assert [language for language, _ in snippets] == ["bash", *["python"] * 3, "bash", "bash"]
    for language, code in snippets:
        assert "https://h.example:8443/v1" in code
        assert ("infinity.crt" in code) == own_issuer
        assert "INFINITY_API_KEY" in code
        if language == "python":
            compile(code, "snippet", "exec")
        else:
            # Quoted for the shell: nothing but the ends of its own words.
            assert code.count("'") == 6


def test_the_page_lists_models_sizes_and_aliases(
    monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    show(monkeypatch, in_days(90.5))
    page = text(ask(site, "/"))
    assert "384, 128" in page
    assert "<code>text-embedding-3-small</code>" in page
    assert "90 days, self-signed" in page
    for path in ("/embeddings", "/rerank", "/classify"):
        assert f'data-route="{path}"' in page


@pytest.mark.parametrize(
    ("seen", "said"),
    [(in_days(-1), "expired"), (in_days(20), 'class="bad">good until'), (None, "not seen")],
)
def test_the_end_of_the_certificate_is_told(
    monkeypatch: pytest.MonkeyPatch, site: Site, seen: Certificate | None, said: str
) -> None:
    show(monkeypatch, seen)
    assert said in text(ask(site, "/"))


@pytest.mark.parametrize(
    "host", [b'"><script>alert(1)</script>', b"a b", b"h.example:99999999", b"", b"\xff"]
)
def test_a_host_that_is_none_does_not_reach_the_page(
    monkeypatch: pytest.MonkeyPatch, site: Site, host: bytes
) -> None:
    asked = show(monkeypatch, in_days(90))
    page = text(ask(site, "/", host))
    assert "Infinity at localhost" in page
    assert "alert" not in page
    assert asked == [443]


def test_the_certificate_is_looked_at_once_a_minute_at_most(
    monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    asked = show(monkeypatch, in_days(90))
    for _ in range(3):
        ask(site, "/", b"[::1]:8443")
    assert asked == [8443]


def test_who_takes_no_page_gets_the_error_object(
    monkeypatch: pytest.MonkeyPatch, site: Site
) -> None:
    show(monkeypatch, in_days(90))
    with pytest.raises(ApiError) as refused:
        ask(site, "/", accept=b"application/json")
    assert refused.value.status == 404
    for accept in (b"", b"*/*", b"text/html"):
        assert ask(site, "/", accept=accept).media.startswith("text/html")


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_their_own_files_only_and_hold_no_script(
    monkeypatch: pytest.MonkeyPatch, site: Site, path: str
) -> None:
    show(monkeypatch, in_days(90))
    answer = ask(site, path)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy
    page = text(answer)
    assert not re.search(r"<style|<script(?! src)|\son\w+=|\sstyle=|javascript:", page)
    loaded = re.findall(r'<(?:script|link)[^>]+(?:src|href)="([^"]+)"', page)
    assert len(loaded) > 3
    for url in loaded:
        file = ask(site, url.partition("?")[0])
        assert file.chunks
        assert "immutable" in file.headers["Cache-Control"]


def test_files_outside_the_pages_are_404(site: Site) -> None:
    for name in ("", "start.html", "../site.py", "..%2fsite.py", "/etc/passwd"):
        with pytest.raises(ApiError) as refused:
            ask(site, f"/static/{name}")
        assert refused.value.status == 404


def test_our_own_files_name_no_other_host() -> None:
    for path in PAGES.iterdir():
        urls = re.findall(r"https?://[\w{][^\s\"'`]*", path.read_text())
        foreign = [url for url in urls if not url.startswith(("https://{{", "http://www.w3"))]
        assert not foreign, path.name


def test_the_shown_certificate_is_the_gates(shared_gate: Gate) -> None:
    seen = certificate.shown(shared_gate.https_port)
    assert seen is not None
    details = decoded(shared_gate.certificate)
    assert seen.end.timestamp() == ssl.cert_time_to_seconds(details["notAfter"])
    assert seen.own_issuer
    assert certificate.shown(shared_gate.http_port) is None
    [closed] = free_ports(1)
    assert certificate.shown(closed) is None


def decoded(path: Path) -> dict[str, Any]:
    """A certificate's fields, by the function that CPython's own tests use."""
    return cast("dict[str, Any]", vars(ssl)["_ssl"]._test_decode_cert(str(path)))


def test_an_expired_certificate_is_still_read(own_gate: Gate) -> None:
    key = tls.new_key()
    long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(days=3000)
    pem = tls.self_signed(key, ["localhost"], long_ago)
    folder = own_gate.certificate.parent
    (folder / "infinity.key").write_bytes(key)
    (folder / "infinity.crt").write_bytes(pem)
    own_gate.reload()
    seen = certificate.shown(own_gate.https_port)
    assert seen is not None
    assert seen.days(dt.datetime.now(dt.UTC)) < 0
