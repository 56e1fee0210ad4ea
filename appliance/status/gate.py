"""nginx, tried on loopback as a client would: shut for strangers, open for this instance's key."""

from __future__ import annotations

import http.client

from appliance import keys, verify
from appliance.asker import CLOSED, Asker
from appliance.errors import ApplianceError
from appliance.paths import Paths
from appliance.settings import Settings
from appliance.status.report import Gate


def attempt(paths: Paths, settings: Settings | None, *, running: bool) -> Gate:
    """Ask without a credential, with a wrong and with a good key.

    What cannot be tried is None, and ``said`` is why.
    """
    if not running:
        return Gate(running=False, answers=None, refuses_strangers=None, accepts_key=None,
                    said="nginx does not run.")  # fmt: skip
    if settings is None:
        return Gate(running=True, answers=None, refuses_strangers=None, accepts_key=None,
                    said="The settings that name the host are lost.")  # fmt: skip
    try:
        ask = Asker(settings, paths)
        alive = ask.tls("GET", path="/healthz")
        stranger = ask.tls("GET")
        listed = keys.parse(paths.api_key_map.read_text("utf-8", "replace"))
        good = listed[0].token if listed else ""
        wrong = ask.tls("GET", verify.bearer((good or "inf-" + "0" * 48) + "x"))
        mine = ask.tls("GET", verify.bearer(good)) if good else None
    except (ApplianceError, OSError) as error:
        said = error.message if isinstance(error, ApplianceError) else str(error)
        return Gate(running=True, answers=False, refuses_strangers=None, accepts_key=None,
                    said=said)  # fmt: skip
    return Gate(
        running=True,
        answers=alive == http.client.OK,
        refuses_strangers=all(status in verify.REFUSALS for status in (stranger, wrong)),
        accepts_key=None if mine is None else mine not in {*verify.REFUSALS, CLOSED, 400, 403},
        said="",
    )
