"""Looks at everything at once; what cannot be found out is missing, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from appliance import settings
from appliance.errors import ApplianceError
from appliance.paths import Paths
from appliance.settings import Ports, Settings
from appliance.status import (
    access,
    egress,
    gatelog,
    listening,
    room,
    server,
    units,
    updates,
    who,
)
from appliance.status import gate as gates
from appliance.status.report import Parts, Unknown
from appliance.status.units import Shown

ACCESS_LOG = "var/log/nginx/access.log"
_SILENT = dict.fromkeys(units.NAMES, Shown({}))


def collect(paths: Paths) -> Parts:
    """Every part. Takes as long as the slowest, since all are waited for together."""
    reasons: dict[str, str] = {}
    shown: dict[str, Shown] = _kept("units", units.look, reasons) or _SILENT
    known: Settings | None = _kept("host", lambda: settings.required(paths), reasons)
    ports = known.ports if known else Ports()
    nginx, model_server = shown["nginx.service"], shown["infinity.service"]
    looks: dict[str, Callable[[], Any]] = {
        "gate": lambda: gates.attempt(paths, known, running=nginx.active),
        "egress": lambda: egress.attempt(model_server),
        "ports": lambda: listening.look(ports),
        "instance": lambda: who.instance(paths),
        "certificate": lambda: _certificate(paths, known),
        "model": lambda: server.model(ports.upstream, _configured(paths)),
        "requests": lambda: server.requests(ports.upstream),
        "first_boot": lambda: units.first_boot(shown),
        "login": lambda: access.login(paths),
        "api_keys": lambda: access.api_keys(paths),
        "credentials_file": lambda: access.credentials_file(paths, known),
        "gate_log": lambda: gatelog.read(paths.root / ACCESS_LOG),
        "disks": lambda: room.disks(paths.root),
        "memory": lambda: room.memory(model_server),
        "updates": updates.look,
        "change_pending": paths.change.exists,
    }
    if shown is not _SILENT:
        looks["units"] = lambda: units.listed(shown)
    found: dict[str, Any] = {"host": who.host(known) if known else None}
    with ThreadPoolExecutor(max_workers=8) as pool:
        asked: dict[str, Future[Any]] = {
            part: pool.submit(_kept, part, look, reasons) for part, look in looks.items()
        }
        found.update({part: future.result() for part, future in asked.items()})
    unknown = tuple(Unknown(part, reason) for part, reason in sorted(reasons.items()))
    return Parts(**found, unknown=unknown)


def _kept(part: str, look: Callable[[], Any], reasons: dict[str, str]) -> Any:  # noqa: ANN401
    """What ``look`` finds; None where it fails, whatever the cause: the others still count."""
    try:
        return look()
    except ApplianceError as error:
        reasons[part] = error.message
    except OSError as error:
        reasons[part] = f"{error.filename or 'the system'}: {error.strerror}."
    except Exception as error:  # noqa: BLE001 - a report about what is broken must not break
        reasons[part] = f"It could not be read ({type(error).__name__})."
    return None


def _certificate(paths: Paths, known: Settings | None) -> object:
    from appliance.status import certificate  # noqa: PLC0415 - slow to import: beside the waiting

    return certificate.read(paths, known)


def _configured(paths: Paths) -> str | None:
    try:
        return settings.configured_model(paths.server_env)
    except ApplianceError:
        return None
