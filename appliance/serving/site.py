"""The pages for a browser: a start page, the API explorer, and the files that these two load.

Both work below a policy that allows a page its own files and nothing else, so no script that
found its way into one would run, and nothing is asked of any other host.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import importlib.util
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from appliance.serving import certificate
from appliance.serving.answers import Answer
from appliance.serving.catalog import Catalog
from appliance.serving.certificate import Certificate
from appliance.serving.errors import ApiError
from appliance.serving.metrics import Metrics
from appliance.serving.schemas import Schema
from appliance.serving.watchdog import Health

PAGES = Path(__file__).resolve().parent / "pages"
SWAGGER = ("swagger-ui.css", "swagger-ui-bundle.js")
STATIC = "/static/"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FRESH = 60.0  # seconds that what was learned of the certificate is used
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::(\d{1,5}))?")


@dataclass(frozen=True)
class File:
    """A file of a page, and the part of its URL that changes with its content."""

    content: bytes
    media: str
    tag: str


class Site:
    """The pages; they say what is served, and never a secret."""

    def __init__(
        self,
        version: str,
        catalog: Catalog,
        health: Health,
        metrics: Metrics,
        document: Callable[[], Schema],
    ) -> None:
        """Read the files.

        Args:
            version: Infinity's.
            catalog: what is served.
            health: whether it answers.
            metrics: what it did.
            document: the OpenAPI document.
        """
        self._version, self._catalog, self._health = version, catalog, health
        self._metrics, self._document = metrics, document
        self._files = {path.name: _file(path) for path in _paths()}
        self._pages = Environment(
            loader=FileSystemLoader(PAGES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self._pages.globals["file"] = self._url
        self._seen: tuple[int, float, Certificate | None] = (0, 0.0, None)

    def route(self, path: str) -> str | None:
        """The path as metrics name it; None for one that is not of these pages."""
        if path in ("/", "/docs"):
            return path
        return f"{STATIC}{{name}}" if path.startswith(STATIC) else None

    async def answer(self, path: str, headers: dict[bytes, bytes]) -> Answer:
        """A page, or a file of one.

        Raises:
            ApiError: 404: no such file, or the client takes no page.
        """
        if path == "/docs":
            return self._page("docs.html", document=self._document())
        if path != "/":
            return self._file(path.removeprefix(STATIC))
        accepted = headers.get(b"accept", b"").decode("latin-1").lower()
        if accepted and "text/html" not in accepted and "*/*" not in accepted:
            raise ApiError(404, "At / is a page for browsers only.", code="not_found")
        return await self._start(headers.get(b"host", b"").decode("latin-1"))

    async def _start(self, named: str) -> Answer:
        match = _HOST.fullmatch(named)
        host = named if match else "localhost"
        seen = await self._certificate(int(match[1] or 443) if match else 443)
        return self._page(
            "start.html",
            host=host,
            version=self._version,
            ready=self._health.ready,
            certificate=seen,
            days=seen.days(dt.datetime.now(dt.UTC)) if seen else None,
            catalog=self._catalog,
            work=self._metrics.work(),
        )

    async def _certificate(self, port: int) -> Certificate | None:
        known, at, found = self._seen
        if port != known or time.monotonic() - at > FRESH:
            found = await asyncio.to_thread(certificate.shown, port)
            self._seen = (port, time.monotonic(), found)
        return found

    def _page(self, name: str, **values: Any) -> Answer:  # noqa: ANN401 - whatever the page says
        text = self._pages.get_template(name).render(values)
        policy = {"Content-Security-Policy": POLICY}
        return Answer(200, [text.encode()], policy, "text/html; charset=utf-8")

    def _file(self, name: str) -> Answer:
        if (file := self._files.get(name)) is None:
            raise ApiError(404, "There is no such file here.", code="not_found")
        # Another content has another URL.
        kept = {"Cache-Control": "private, max-age=31536000, immutable"}
        return Answer(200, [file.content], kept, file.media)

    def _url(self, name: str) -> str:
        return f"{STATIC}{name}?{self._files[name].tag}"


def _paths() -> list[Path]:
    """Our own files, and Swagger UI's out of the package that carries them, which is not run."""
    ours = [path for path in PAGES.iterdir() if path.suffix in MEDIA]
    package = importlib.util.find_spec("fastapi_offline")
    folder = Path(package.origin).parent / "static" if package and package.origin else PAGES
    # Without it the server still serves; /docs then fails.
    return ours + [path for name in SWAGGER if (path := folder / name).is_file()]


def _file(path: Path) -> File:
    content = path.read_bytes()
    return File(content, MEDIA[path.suffix], hashlib.sha256(content).hexdigest()[:12])
