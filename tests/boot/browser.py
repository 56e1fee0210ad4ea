"""A real browser (Chromium, headless) on a machine's pages, and a record of all it asks for.

It runs in the network of the machine's router, from where nothing but the machine can be reached,
and resolves the machine's name only: what a page asks of another host fails and is in the record.
(On the host's own network it would also drop requests whenever another machine comes or goes.)
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import probe
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from machine.instance import Machine

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass
class Record:
    """What happened in a page: the URLs asked for, and whatever the console or a script said."""

    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> None:
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("requestfailed", lambda request: self.complaints.append(f"{request.url} failed"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._said)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.type}: {message.text} ({message.location})")

    def elsewhere(self, origin: str) -> list[str]:
        """What was asked of another host; data: URLs ask nobody."""
        return [url for url in self.asked if not url.startswith((f"{origin}/", "data:"))]


@contextmanager
def chromium(machine: Machine) -> Iterator[Browser]:
    """The browser, trusting this machine's certificate and resolving its name only."""
    host = probe.credentials(machine).host
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.fail("The tests of the pages need Chromium: apt-get install chromium", pytrace=False)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        started = Path(folder) / "chromium"
        started.write_text(f'#!/bin/sh\nexec ip netns exec {machine.place.router} {program} "$@"\n')
        started.chmod(0o700)
        browser = playwright.chromium.launch(
            executable_path=started,
            chromium_sandbox=False,  # root has none, and the pages are ours
            args=[
                f"--host-resolver-rules=MAP {host} {machine.address}, MAP * ~NOTFOUND",
                f"--ignore-certificate-errors-spki-list={public_key(machine)}",
                "--disable-dev-shm-usage",
            ],
        )
        yield browser
        browser.close()


def public_key(machine: Machine) -> str:
    """The certificate's key as Chromium's list wants it: base64 of its SHA-256."""
    pem = machine.exec(["cat", str(probe.PATHS.certificate)]).stdout
    key = x509.load_pem_x509_certificate(pem.encode()).public_key()
    raw = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(raw).digest()).decode()


@contextmanager
def opened(
    browser: Browser,
    machine: Machine,
    path: str,
    *,
    scheme: str = "light",
    script: bool = True,
    width: int = 1280,
    pictures: Path | None = None,
) -> Iterator[tuple[Page, Record]]:
    """A page in a context of its own, logged in as a person is: by answering the gate's question.

    Args:
        browser: where.
        machine: whose page.
        path: of the page.
        scheme: light or dark, what the reader's system prefers.
        script: whether JavaScript is on.
        width: of the window, pixels.
        pictures: a folder for a picture of the page as it was left.
    """
    mine = probe.credentials(machine)
    context: BrowserContext = browser.new_context(
        base_url=f"https://{mine.host}",
        http_credentials={"username": mine.username, "password": mine.password},
        color_scheme="dark" if scheme == "dark" else "light",
        java_script_enabled=script,
        viewport={"width": width, "height": 900},
    )
    page, record = context.new_page(), Record()
    record.follow(page)
    try:
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200
        yield page, record
        if pictures:
            name = f"{path.strip('/') or 'start'}-{scheme}-{width}{'' if script else '-plain'}.png"
            page.screenshot(path=pictures / name, full_page=True)
    finally:
        context.close()
