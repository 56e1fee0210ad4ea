"""The pages in a real browser, against a booted machine: what they show, load and let one do."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import probe
import pytest
from browser import Record, chromium, opened
from playwright.sync_api import Browser, Page, expect

from appliance.ami import guide
from appliance.run import run
from machine.instance import Machine

pytestmark = pytest.mark.boot

expect.set_options(timeout=30_000)  # milliseconds; other machines may be booting meanwhile
SCHEMES = ["light", "dark"]
PATHS = ["/", "/docs"]
# The least contrast of all texts on their backgrounds (WCAG 2.1, 1.4.3), and the text that has it.
CONTRAST = """
() => {
  const channel = (x) => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const [r, g, b, alpha = 1] = numbers(getComputedStyle(element).backgroundColor);
      if (alpha === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let least = [21, ""];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const pair = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < least[0]) least = [ratio, texts.currentNode.data];
  }
  return least;
}
"""


@pytest.fixture(scope="module")
def browser(shared: Machine) -> Iterator[Browser]:
    with chromium(shared) as running:
        yield running


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


def check(machine: Machine, page: Page, record: Record) -> None:
    """Nothing went wrong, nothing left for another host, and no secret is in the page."""
    mine = probe.credentials(machine)
    assert record.complaints == []
    assert record.elsewhere(f"https://{mine.host}") == []
    content = page.content()
    for secret in (mine.api_key, mine.password):
        assert secret not in content


def embed(machine: Machine) -> None:
    mine = probe.credentials(machine)
    body = {"input": "A text."}
    assert probe.request(machine, "/embeddings", headers=mine.bearer, body=body).status_code == 200


@pytest.mark.parametrize("path", [*PATHS, "/static/start.js", "/static/swagger-ui-bundle.js"])
def test_pages_and_their_files_are_behind_the_gate(shared: Machine, path: str) -> None:
    assert probe.request(shared, path).status_code == 401
    assert probe.request(shared, path, headers=probe.credentials(shared).bearer).status_code == 200


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1280, 390])
def test_start_page_says_what_is_served_and_asks_no_other_host(
    shared: Machine, browser: Browser, pictures: Path, scheme: str, width: int
) -> None:
    mine = probe.credentials(shared)
    with opened(browser, shared, "/", scheme=scheme, width=width, pictures=pictures) as (
        page,
        record,
    ):
        expect(page.locator("h1")).to_contain_text(mine.host)
        expect(page.locator("#ready")).to_have_text("Ready")
        expect(page.locator("main")).to_contain_text(mine.model)
        expect(page.locator(".plots output").first).not_to_be_empty()
        ratio, text = page.evaluate(CONTRAST)
        assert ratio >= 4.5, text
        shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", shade))) < 128) == (scheme == "dark")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, "the page scrolls sideways"
        check(shared, page, record)


def test_start_page_tells_all_of_it_without_javascript(
    shared: Machine, browser: Browser, pictures: Path
) -> None:
    mine = probe.credentials(shared)
    told = shared.exec("openssl x509 -enddate -noout -in /etc/ssl/infinity/infinity.crt").stdout
    end = dt.datetime.strptime(f"{told.strip()}+0000", "notAfter=%b %d %H:%M:%S %Y GMT%z")
    served = (mine.model, f"https://{mine.host}/v1", "Ready", f"{end:%-d %B %Y}", "curl")
    with opened(browser, shared, "/", script=False, pictures=pictures) as (page, record):
        main = page.locator("main")
        for said in served:
            expect(main).to_contain_text(said)
        expect(page.locator("#totals tbody tr")).to_have_count(3)
        expect(page.locator("#plots")).to_be_hidden()
        check(shared, page, record)


def test_totals_and_plots_follow_a_request(shared: Machine, browser: Browser) -> None:
    with opened(browser, shared, "/") as (page, record):
        total = page.locator("tr[data-route='/embeddings'] td").first
        # The first look gives the totals, the second one the first difference.
        expect(page.locator(".plots .scale span").first).to_have_text(re.compile(r"highest \d"))
        before = int(total.inner_text())
        embed(shared)
        expect(total).to_have_text(str(before + 1))
        drawing = page.locator(".plots svg[aria-label^='Requests a second']")
        expect(drawing).to_have_attribute("aria-label", re.compile(r"at most 0*[1-9.]"))
        expect(page.locator(".plots path").first).to_have_attribute("d", re.compile(r"V4H"))
        check(shared, page, record)


def test_snippets_are_copied_as_they_stand(shared: Machine, browser: Browser) -> None:
    with opened(browser, shared, "/") as (page, record):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy the example for curl").click()
        expect(page.get_by_text("Copied")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.locator("pre").first.text_content()
        check(shared, page, record)


@pytest.mark.parametrize("number", [0, 1, 2, 3], ids=["curl", "openai", "langchain", "llamaindex"])
def test_snippet_works_as_it_stands(
    shared: Machine, browser: Browser, tmp_path: Path, number: int
) -> None:
    mine = probe.credentials(shared)
    with opened(browser, shared, "/", script=False) as (page, _):
        snippet = page.locator("pre").nth(number)
        code, language = snippet.text_content(), snippet.get_attribute("data-language")
    assert code
    assert mine.host in code
    pem = shared.exec(["cat", str(probe.PATHS.certificate)]).stdout
    (tmp_path / "infinity.crt").write_text(pem)
    # Both stand in for DNS, which does not know the machine's name.
    (tmp_path / ".curlrc").write_text(f'resolve = "{mine.host}:443:{shared.address}"\n')
    resolver = guide.RESOLVER.format(host=mine.host, address=shared.address)
    (tmp_path / "snippet").write_text(code if language == "bash" else f"{resolver}\n{code}\n")
    program = "bash" if language == "bash" else sys.executable
    environment = {"INFINITY_API_KEY": mine.api_key, "CURL_HOME": str(tmp_path)}
    done = run(
        [program, "snippet"], cwd=tmp_path, env={**os.environ, **environment}, timeout=120
    ).stdout
    if language == "bash":
        assert [len(one["embedding"]) for one in json.loads(done)["data"]] == [384, 384]
    else:
        assert done.strip() == "2 384"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_try_it_out_gives_vectors_with_the_login_alone(
    shared: Machine, browser: Browser, pictures: Path, scheme: str
) -> None:
    with opened(browser, shared, "/docs", scheme=scheme, pictures=pictures) as (page, record):
        operation = page.locator("[id$=-embeddings]")
        operation.locator("button.opblock-summary-control").click()
        with page.expect_response("**/embeddings") as waited:
            operation.get_by_role("button", name="Execute").click()
        answer: dict[str, Any] = waited.value.json()
        assert [len(one["embedding"]) for one in answer["data"]] == [384, 384]
        expect(
            operation.locator(".live-responses-table .response-col_status").last
        ).to_contain_text("200")
        is_dark = page.evaluate("document.documentElement.classList.contains('dark-mode')")
        assert is_dark == (scheme == "dark")
        check(shared, page, record)


def test_paths_are_listed_without_javascript(shared: Machine, browser: Browser) -> None:
    with opened(browser, shared, "/docs", script=False) as (page, record):
        assert page.locator("noscript table").is_visible()
        paths = page.locator("noscript tbody code").all_text_contents()
        assert {"/embeddings", "/models", "/readyz"} <= set(paths)
        check(shared, page, record)


@pytest.mark.parametrize("path", PATHS)
def test_a_smuggled_script_or_picture_is_blocked_and_the_record_tells(
    shared: Machine, browser: Browser, path: str
) -> None:
    smuggle = """() => {
      const script = document.createElement("script");
      script.textContent = "window.smuggled = true";
      const picture = document.createElement("img");
      picture.src = "https://evil.example/picture.png";
      document.body.append(script, picture);
    }"""
    with opened(browser, shared, path) as (page, record):
        with page.expect_console_message(lambda said: "img-src" in said.text):
            page.evaluate(smuggle)
        assert page.evaluate("window.smuggled") is None
        said = "\n".join(record.complaints)
        assert "script-src 'self'" in said
        assert "img-src 'self'" in said
