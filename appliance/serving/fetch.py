"""`python -m appliance.serving.fetch`: puts the configured models into the cache when missing.

infinity-model.service runs it before the server, because only it may reach the network. On
a normal boot everything is there, and it ends without importing more than the standard library.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from appliance import hub as cache
from appliance import room
from appliance.errors import ApplianceError
from appliance.serving import config, progress, weights
from appliance.serving.config import ENV_FILE, ModelSource, ServingConfig

# The rest is tokenizer, configuration and pooling; ONNX and other frameworks' copies are not
# wanted, and Python files only where they may run.
WANTED = (weights.SAFE, "*.json", "*.txt", "*.model")
UNWANTED = ("onnx/*", "openvino/*", "*/onnx/*", "coreml/*", "flax_model*", "tf_model*")
SPARE = 512 * 2**20  # bytes of the disk that a download leaves free


def main() -> None:
    settings = config.from_environment(os.environ)
    for model in settings.models:
        ensure(model, settings)


def ensure(model: ModelSource, settings: ServingConfig) -> None:
    """Leave a usable snapshot of ``model`` in the cache.

    Raises:
        ApplianceError: it is not there and could not be downloaded, it has no weights that may
            be read, or there is no room for it.
    """
    if complete(model, settings):
        return
    print(f"{model.repo} is not in the cache; downloading it to {settings.hub}.", flush=True)
    download(model, settings)
    if not complete(model, settings):
        raise weights.absent(model.repo)
    print(f"{model.repo} is in the cache.", flush=True)


def complete(model: ModelSource, settings: ServingConfig) -> bool:
    """Whether the cache holds the configuration and weights (a broken link counts as missing)."""
    snapshot = model.snapshot(settings.hub)
    return snapshot is not None and weights.present(snapshot, allow_pickle=settings.allow_pickle)


def download(model: ModelSource, settings: ServingConfig) -> None:
    """Fetch one revision from the model hub, aside, and lay it in when it is whole.

    What was fetched before an interruption is kept and not fetched again.
    """
    os.environ.pop("HF_HUB_OFFLINE", None)  # the unit's setting is for the server
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # systemd shows ours
    # Only when there is a download.
    from huggingface_hub.errors import (  # noqa: PLC0415
        EntryNotFoundError,
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from requests.exceptions import ConnectionError as Unreachable  # noqa: PLC0415
    from requests.exceptions import Timeout  # noqa: PLC0415

    try:
        _download(model, settings)
    except ApplianceError:
        raise
    except GatedRepoError as error:
        raise ApplianceError(
            f"The model {model.repo} asks its users to accept terms first.",
            f"Accept them on huggingface.co and set HF_TOKEN in {ENV_FILE}, or choose another.",
        ) from error
    except LocalEntryNotFoundError as error:  # an EntryNotFoundError that means: no connection
        raise _undone(model, _first_line(error)) from error
    except (RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError) as error:
        wanted = f"{model.repo}@{model.revision}" if model.revision else model.repo
        raise ApplianceError(
            f"There is no model {wanted} on the hub.", f"Check the MODEL line in {ENV_FILE}."
        ) from error
    except (Unreachable, Timeout) as error:
        raise _undone(model, "the model hub cannot be reached.") from error
    except Exception as error:
        raise _undone(model, _first_line(error)) from error


def _download(model: ModelSource, settings: ServingConfig) -> None:
    from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415 - see download
    from huggingface_hub.utils._paths import filter_repo_objects  # noqa: PLC0415

    aside = settings.hub / cache.DOWNLOADING
    revision = model.revision or "main"
    said: Any = HfApi().model_info(model.repo, revision=revision, files_metadata=True)
    sizes = {file.rfilename: int(file.size or 0) for file in said.siblings}
    wanted = list(
        filter_repo_objects(
            sizes, allow_patterns=_patterns(sizes, settings), ignore_patterns=list(UNWANTED)
        )
    )
    size = sum(sizes[name] for name in wanted)
    _check_room(model, size, settings.hub)
    room.demand(sum(sizes[name] for name in wanted if name.endswith((".safetensors", ".bin"))))
    building = cache.folder(aside, model.repo)
    with progress.shown(model.repo, size, building):
        snapshot = snapshot_download(
            model.repo, revision=said.sha, cache_dir=aside, allow_patterns=wanted
        )
    commit = Path(snapshot).name
    ref = "" if revision == commit else revision
    cache.lay_in(building, settings.hub, model.repo, commit, ref)
    shutil.rmtree(aside, ignore_errors=True)


def _patterns(sizes: dict[str, int], settings: ServingConfig) -> list[str]:
    """What to take; pickles only where there is nothing better."""
    patterns = list(WANTED)
    if settings.allow_pickle and not any(name.endswith(".safetensors") for name in sizes):
        patterns.append("*.bin")
    if settings.trust_remote_code:
        patterns.append("*.py")
    return patterns


def _check_room(model: ModelSource, size: int, hub: Path) -> None:
    free = shutil.disk_usage(hub).free
    if free < size + SPARE:
        raise ApplianceError(
            f"The model {model.repo} is {size / 1e6:.0f} MB, and the disk has {free / 1e6:.0f} MB "
            f"free, of which {SPARE / 1e6:.0f} MB stay free.",
            "Enlarge the volume, or choose a smaller model.",
        )


def _undone(model: ModelSource, why: str) -> ApplianceError:
    return ApplianceError(
        f"The model {model.repo} could not be downloaded: {why}",
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
