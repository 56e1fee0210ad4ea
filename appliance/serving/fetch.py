"""`python -m appliance.serving.fetch`: puts the configured models into the cache when missing.

infinity-model.service runs it before the server, because only it may reach the network. On
a normal boot everything is there, and it ends without importing more than the standard library.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.serving import config
from appliance.serving.config import ENV_FILE, ModelSource

# Weights only as safetensors: a pickle runs code when it is loaded. The rest is tokenizer,
# configuration and pooling; code, ONNX and other frameworks' copies are not wanted.
WANTED = ("*.safetensors", "*.json", "*.txt", "*.model", "*.safetensors.index.json")
UNWANTED = ("onnx/*", "openvino/*", "*/onnx/*", "coreml/*", "flax_model*", "tf_model*")


def main() -> None:
    settings = config.from_environment(os.environ)
    for model in settings.models:
        ensure(model, settings.hub)


def ensure(model: ModelSource, hub: Path) -> None:
    """Leave a usable snapshot of ``model`` in the cache.

    Raises:
        ApplianceError: it is not there and could not be downloaded, or it has no safetensors.
    """
    if complete(model, hub):
        return
    print(f"{model.repo} is not in the cache; downloading it to {hub}.", flush=True)
    download(model, hub)
    if not complete(model, hub):
        raise ApplianceError(
            f"{model.repo} has no weights in the safetensors format.",
            "Only safetensors is served, because other formats run code when they are loaded; "
            "choose a model that has it.",
        )
    print(f"{model.repo} is in the cache.", flush=True)


def complete(model: ModelSource, hub: Path) -> bool:
    """Whether the cache holds the configuration and weights (a broken link counts as missing)."""
    snapshot = model.snapshot(hub)
    return snapshot is not None and any(
        weights.is_file() for weights in snapshot.glob("*.safetensors")
    )


def download(model: ModelSource, hub: Path) -> None:
    """Fetch one revision from the model hub; the cache is left as the hub's own client lays it."""
    os.environ.pop("HF_HUB_OFFLINE", None)  # the unit's setting is for the server
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - only when there is a download
    from huggingface_hub.errors import (  # noqa: PLC0415
        EntryNotFoundError,
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        snapshot_download(
            model.repo,
            revision=model.revision or None,
            cache_dir=hub,
            allow_patterns=list(WANTED),
            ignore_patterns=list(UNWANTED),
        )
    except GatedRepoError as error:
        raise ApplianceError(
            f"The model {model.repo} asks its users to accept terms first.",
            f"Accept them on huggingface.co and set HF_TOKEN in {ENV_FILE}, or choose another.",
        ) from error
    except LocalEntryNotFoundError as error:  # an EntryNotFoundError that means: no connection
        raise _undone(model, error) from error
    except (RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError) as error:
        wanted = f"{model.repo}@{model.revision}" if model.revision else model.repo
        raise ApplianceError(
            f"There is no model {wanted} on the hub.", f"Check the MODEL line in {ENV_FILE}."
        ) from error
    except Exception as error:
        raise _undone(model, error) from error


def _undone(model: ModelSource, error: Exception) -> ApplianceError:
    return ApplianceError(
        f"The model {model.repo} could not be downloaded: {_first_line(error)}",
        "Check outbound HTTPS to huggingface.co and the free space of the disk (`df -h`), "
        "then `systemctl restart infinity.service`.",
    )


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)
