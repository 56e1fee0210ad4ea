"""The ASGI app: our routes over Infinity's app, which keeps what they do not touch."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from appliance.errors import ApplianceError
from appliance.serving import answers, asgi, bodies
from appliance.serving.admission import Admission
from appliance.serving.answers import Answer
from appliance.serving.asgi import App, ClientGone, Message, Receive, Send
from appliance.serving.errors import ApiError, internal, unavailable
from appliance.serving.metrics import CONTENT_TYPE, Metrics
from appliance.serving.openai import Api
from appliance.serving.site import Site
from appliance.serving.watchdog import Health

log = logging.getLogger("appliance.serving")

GONE = 499  # nginx's number for a client that hung up; nobody receives it
_MODELS = "/models/"


class Gateway:
    """Routes, with and without ``/v1`` and a trailing slash."""

    def __init__(
        self,
        app: App,
        api: Api,
        admission: Admission,
        health: Health,
        metrics: Metrics,
        *,
        site: Site,
    ) -> None:
        self._app, self._admission, self._health = app, admission, health
        self._metrics, self._site = metrics, site
        self._posts = {
            "/embeddings": api.embeddings,
            "/rerank": api.rerank,
            "/classify": api.classify,
        }
        self._gets: dict[str, Callable[[], Answer]] = {
            "/models": api.models,
            "/readyz": self._readyz,
            "/metrics": self._page,
        }
        self._model = api.model
        # Infinity's own routes that stay; its others are ours, or refused (images, audio).
        self._infinity = frozenset({"/health", "/openapi.json"})

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        path = normal(scope["path"])
        route = self.route(path)
        headers = dict(scope["headers"])
        if route in self._infinity:
            await self._app({**scope, "path": path, "raw_path": path.encode()}, receive, send)
            return
        try:
            answer = await self._answer(scope["method"], path, route, headers, receive)
        except ClientGone:
            answer = None
        except ApiError as error:
            answer = Answer(error.status, [error.body()], error.headers)
        except Exception as error:  # noqa: BLE001 - the last stop before the client
            answer = _unexpected(error)
        if answer is not None:
            await asgi.write(send, answer, head=scope["method"] == "HEAD")
        key = self._metrics.key(headers.get(b"x-infinity-key-name", b"").decode("latin-1"))
        status = str(answer.status if answer else GONE)
        self._metrics.requests.labels(route, status, key).inc()
        self._metrics.seconds.labels(route).observe(time.perf_counter() - started)

    def route(self, path: str) -> str:
        """The route as metrics name it: one of a few."""
        if path in self._posts or path in self._gets or path in self._infinity:
            return path
        if (page := self._site.route(path)) is not None:
            return page
        return "/models/{id}" if path.startswith(_MODELS) else "other"

    async def _answer(
        self, method: str, path: str, route: str, headers: dict[bytes, bytes], receive: Receive
    ) -> Answer:
        if route in self._posts:
            _allow(method, "POST")
            return await self._post(route, headers, receive)
        if route == "other":
            raise ApiError(404, f"There is no {path[:200]} here.", code="not_found")
        _allow(method, "GET", "HEAD")
        if route in self._gets:
            return self._gets[route]()
        if self._site.route(path) is not None:
            return await self._site.answer(path, headers)
        return self._model(path.removeprefix(_MODELS))

    async def _post(self, route: str, headers: dict[bytes, bytes], receive: Receive) -> Answer:
        """Work, until it is done, the client is gone, or the model has failed."""
        if self._health.failed.done():
            raise unavailable()
        bodies.check_type(headers.get(b"content-type", b"").decode("latin-1"))
        with ExitStack() as held:
            take = held.enter_context(self._admission.body())
            body = await asgi.body(headers, receive, take)
            work = asyncio.ensure_future(self._posts[route](body))
            gone = asyncio.ensure_future(asgi.hang_up(receive))
            try:
                ends: set[asyncio.Future[Any]] = {work, gone, self._health.failed}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    return work.result()
                raise ClientGone if gone.done() else unavailable()
            finally:
                work.cancel()
                gone.cancel()

    def _readyz(self) -> Answer:
        if self._health.ready:
            return answers.json({"status": "ready"})
        raise unavailable()

    def _page(self) -> Answer:
        return Answer(200, [self._metrics.page()], media=CONTENT_TYPE)


def normal(path: str) -> str:
    """``/v1/embeddings/`` is ``/embeddings``."""
    bare = path.rstrip("/") or "/"
    return bare.removeprefix("/v1") if bare.startswith("/v1/") else bare


def _allow(method: str, *allowed: str) -> None:
    if method not in allowed:
        raise ApiError(
            405,
            f"{method[:20]} is not allowed here; use {allowed[0]}.",
            code="method_not_allowed",
            headers={"Allow": ", ".join(allowed)},
        )


def _unexpected(error: Exception) -> Answer:
    if isinstance(error, ApplianceError):
        log.error("%s", error)
    else:
        log.error("A request failed.", exc_info=error)
    failure = internal()
    return Answer(failure.status, [failure.body()])
