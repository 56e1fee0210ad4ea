"""`python -m appliance.serving.server`: the model server behind the gate.

Infinity's app on loopback, ready for systemd only when a real embedding came back.
"""

from __future__ import annotations

import asyncio
import os
import sys

from appliance.errors import ApplianceError
from appliance.serving import config, loading, notify, process
from appliance.serving.encoder_environment import ENVIRONMENT

CANARY_SECONDS = 5.0


def prepare_environment() -> None:
    """Settings that must stand before Infinity or a tokenizer is imported; never the operator's."""
    os.environ.update(
        INFINITY_ANONYMOUS_USAGE_STATS="0",
        DO_NOT_TRACK="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        INFINITY_REDIRECT_SLASH="",
        INFINITY_URL_PREFIX="",
        **ENVIRONMENT,
    )


def main() -> None:
    process.set_name("infinity_emb")
    prepare_environment()
    settings = config.from_environment(os.environ)
    import torch
    import uvicorn
    from infinity_emb import create_server

    from appliance.serving import encoder_batching

    torch.set_num_threads(process.physical_cores())
    encoder_batching.install()
    app = create_server(
        engine_args_list=[loading.engine_args(settings, m) for m in settings.models]
    )
    state = {"ready": False}

    async def canary(server: uvicorn.Server) -> None:
        while not server.started:
            await asyncio.sleep(0.02)
        for engine in app.engine_array:
            for replica in engine._model_replicas:
                print(loading.accelerate(replica), file=sys.stderr)
        first = True
        while not server.should_exit:
            try:
                engine = app.engine_array[0]
                if "embed" in engine.capabilities:
                    await asyncio.wait_for(engine.embed(["canary"]), 20)
                state["ready"] = True
                notify.notify("WATCHDOG=1", *(["READY=1", "STATUS=Serving"] if first else []))
                first = False
            except TimeoutError:
                state["ready"] = False
            await asyncio.sleep(CANARY_SECONDS)

    async def gateway(scope, receive, send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            if path.startswith("/v1/"):
                path = path[3:]
            path = path.rstrip("/") or "/"
            if path == "/readyz":
                ready = state["ready"]
                body = b'{"status":"ready"}' if ready else b'{"status":"not ready"}'
                headers = [(b"content-type", b"application/json")]
                await send({"type": "http.response.start", "status": 200 if ready else 503,
                            "headers": headers})
                await send({"type": "http.response.body", "body": body})
                return
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await app(scope, receive, send)

    async def serve() -> None:
        server = uvicorn.Server(
            uvicorn.Config(gateway, host="127.0.0.1", port=settings.port, access_log=False,
                           timeout_keep_alive=65)
        )
        task = asyncio.create_task(canary(server))
        await server.serve()
        task.cancel()

    asyncio.run(serve())


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as error:
        print(error, file=sys.stderr)
        # infinity.service is not restarted over this: only a change by someone mends it.
        sys.exit(os.EX_CONFIG)
