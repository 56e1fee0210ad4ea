"""The running server: models, API, canary and uvicorn in one event loop."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import Any

import torch
import uvicorn
import uvloop
from infinity_emb import create_server

from appliance.serving import loading, openapi, process
from appliance.serving.admission import MAX_TOKENS, Admission
from appliance.serving.catalog import Catalog
from appliance.serving.config import ServingConfig
from appliance.serving.gateway import Gateway
from appliance.serving.metrics import Metrics
from appliance.serving.notify import notify
from appliance.serving.openai import Api
from appliance.serving.passes import Passes
from appliance.serving.site import Site
from appliance.serving.watchdog import Health, watch

HOST = "127.0.0.1"
# Longer than the gate keeps its connections to us, so that it is never the server that closes
# one under a request.
KEEP_ALIVE = 65
GRACE = 10  # seconds that requests get to end after SIGTERM
FAREWELL = 2.0  # seconds for the 503s to leave after a failure


def run(settings: ServingConfig) -> int:
    """Serve until told to stop; 0, or 1 when the model failed."""
    logging.basicConfig(level="INFO", format="%(levelname)s %(name)s: %(message)s", force=True)
    torch.set_num_threads(process.physical_cores())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings))


class Parts:
    """What a server is made of; made inside the event loop, before it serves."""

    def __init__(self, settings: ServingConfig) -> None:
        """Load the models.

        Raises:
            ApplianceError: a model cannot be served.
        """
        self.health, self.passes, self.metrics = Health(), Passes(), Metrics()
        models = process.in_passing_thread(
            lambda: [
                loading.load(settings, source, self.passes, self.metrics, self.health.suspect)
                for source in settings.models
            ]
        )
        process.give_back_memory()  # the stock encoders', and what their file was read into
        self.catalog = Catalog(models, settings.aliases)
        self.admission = Admission(lambda: self.passes.rate)
        self._gauges()
        # Infinity's app without its lifespan: that would load the models a second time, behind
        # the handler that models.py does without.
        self.infinity = create_server(engine_args_list=[], redirect_slash="", url_prefix="")
        # FastAPI's documented way to replace its document; the sizes are known after a canary.
        version = self.infinity.version
        document = functools.partial(openapi.document, version, self.catalog)
        vars(self.infinity)["openapi"] = document
        api = Api(self.catalog, self.admission, self.metrics)
        site = Site(version, self.catalog, self.health, self.metrics, document)
        self.app = Gateway(self.infinity, api, self.admission, self.health, self.metrics, site=site)

    def _gauges(self) -> None:
        waiting, metrics = self.admission, self.metrics
        metrics.watch("queue_tokens", "Tokens admitted and not yet done.", lambda: waiting.tokens)
        metrics.watch("queue_requests", "Requests admitted.", lambda: waiting.requests)
        metrics.watch("queue_limit_tokens", "The most that may wait.", lambda: MAX_TOKENS)
        metrics.watch("body_bytes", "Bytes of request bodies held.", lambda: waiting.bytes)

    async def watch(self) -> None:
        canaries = [model.canary for model in self.catalog.models]
        await watch(self.health, canaries, self.passes, self.metrics)


async def _serve(settings: ServingConfig) -> int:
    notify("STATUS=Loading the model.")
    parts = Parts(settings)
    app: Any = parts.app
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=HOST,
            port=settings.port,
            lifespan="off",
            ws="none",
            access_log=False,  # the gate keeps it
            log_config=None,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=GRACE,
        )
    )
    serving = asyncio.ensure_future(server.serve())
    watching = asyncio.ensure_future(parts.watch())
    await asyncio.wait({serving, watching}, return_when=asyncio.FIRST_COMPLETED)
    if not watching.done():
        watching.cancel()
        notify("STOPPING=1")
        return 0
    await asyncio.sleep(FAREWELL)
    return 1
