"""The support archive: texts without secrets, a manifest, and a file that only root may read."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.paths import Paths
from appliance.status import clock
from appliance.support import secrets
from appliance.support.redact import Redactor
from appliance.support.sources import LONGEST, sources

FOLDER = "infinity-support"
_ELSEWHERE = "Name another file: `sudo infinity-status --support FILE`."


def default_path(paths: Paths) -> Path:
    """Where root alone may look, under a name that tells when."""
    moment = clock.now().replace(":", "").replace("-", "")
    return paths.credentials.parent / f"infinity-support-{moment}.tar.gz"


def write(target: Path, report: Mapping[str, str], paths: Paths) -> tuple[int, int]:
    """Gather everything and write the archive, mode 0600.

    Args:
        target: it must not exist, not even as a link that leads nowhere.
        report: more files by name, such as the report itself.
        paths: of the instance.

    Returns:
        How many files it holds, and how many secrets were replaced in them.

    Raises:
        ApplianceError: the target exists or cannot be written; nothing is left of it.
    """
    redactor = Redactor(secrets.gather(paths), secrets.user_data(paths))
    descriptor = _create(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            texts = {name: redactor.text(text) for name, text in _texts(report, paths).items()}
            _pack(file, texts, redactor.count)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        target.unlink(missing_ok=True)
        raise ApplianceError(
            f"{target} could not be written: {error.strerror}.", _ELSEWHERE
        ) from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return len(texts), redactor.count


def _create(target: Path) -> int:
    """A new file for root alone. O_EXCL: whatever has that name, a link too, is in the way."""
    try:
        return os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise ApplianceError(f"{target} exists already.", _ELSEWHERE) from error
    except OSError as error:
        raise ApplianceError(
            f"{target} could not be written: {error.strerror}.", _ELSEWHERE
        ) from error


def _texts(report: Mapping[str, str], paths: Paths) -> dict[str, str]:
    """Every text; in the place of one that cannot be had, why."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        asked = {name: pool.submit(_had, source) for name, source in sources(paths).items()}
        found = {name: future.result() for name, future in asked.items()}
    return {**report, **found}


def _had(source: Callable[[], str]) -> str:
    try:
        return source()[-LONGEST:]
    except ApplianceError as error:
        return f"not available: {error.message}\n"
    except OSError as error:
        return f"not available: {error.strerror}\n"
    except Exception as error:  # noqa: BLE001 - one source must not cost the others
        return f"not available: {type(error).__name__}\n"


def _pack(file: io.BufferedWriter, texts: Mapping[str, str], replaced: int) -> None:
    listed = {}
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in sorted(texts.items()):
            raw = text.encode("utf-8", "replace")
            listed[name] = {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
            _add(archive, name, raw)
        manifest = {"made": clock.now(), "secrets_replaced": replaced, "files": listed}
        _add(archive, "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())


def _add(archive: tarfile.TarFile, name: str, raw: bytes) -> None:
    member = tarfile.TarInfo(f"{FOLDER}/{name}")
    member.size, member.mode, member.mtime = len(raw), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(raw))
