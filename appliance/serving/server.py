"""`python -m appliance.serving.server`: the model server behind the gate.

Infinity's app and models on loopback under our API layer; ready for systemd only when a real
embedding came back.
"""

from __future__ import annotations

import os
import sys

from appliance.errors import ApplianceError
from appliance.serving import config, deferred, process
from appliance.serving.encoder_environment import ENVIRONMENT


def prepare_environment() -> None:
    """Settings that must stand before Infinity or a tokenizer is imported; never the operator's."""
    os.environ.update(
        INFINITY_ANONYMOUS_USAGE_STATS="0",
        DO_NOT_TRACK="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",  # the cores are the forward pass's
        INFINITY_TRUST_REMOTE_CODE="false",
        PROMETHEUS_DISABLE_CREATED_SERIES="true",
        INFINITY_REDIRECT_SLASH="",
        INFINITY_URL_PREFIX="",
        INFINITY_API_KEY="",
        **ENVIRONMENT,
    )


def main() -> int:
    process.set_name("infinity_emb")
    process.use_one_heap()
    prepare_environment()
    settings = config.from_environment(os.environ)
    for model in settings.models:
        settings.snapshot(model)
    deferred.defer()
    # Seconds of imports, after what can be refused without them.
    from appliance.serving import service  # noqa: PLC0415

    return service.run(settings)


if __name__ == "__main__":
    try:
        status = main()
    except ApplianceError as error:
        print(error, file=sys.stderr)
        # infinity.service is not restarted over this: only a change by someone mends it.
        status = os.EX_CONFIG
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: that waits for threads, and one may hang in a forward pass.
    os._exit(status)
