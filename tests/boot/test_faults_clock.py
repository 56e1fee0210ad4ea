"""A clock that was years off while the certificate was made: put right, the certificate is too.

Machines share this computer's clock, so the certificate is given the dates that a wrong one gives.
"""

from __future__ import annotations

import faults
import probe
import pytest
from test_failures import UNIT

from machine.instance import Machine

pytestmark = [pytest.mark.boot, pytest.mark.timeout(3 * faults.NEVER)]

PYTHON = "/opt/infinity/appliance/venv/bin/python"
MAKE = """
import datetime as dt, sys
from pathlib import Path
from appliance import settings, tls
from appliance.paths import Paths
paths, years = Paths(), int(sys.argv[1])
now = dt.datetime.now(dt.UTC) + dt.timedelta(days=365 * years)
key = paths.certificate_key.read_bytes()
paths.certificate.write_bytes(tls.self_signed(key, settings.required(paths).hosts, now))
"""
# What systemd starts when the clock is set, and what every boot starts.
MENDS = {"the clock is set": ["infinity-renew.service"], "a boot": [UNIT, "nginx.service"]}


@pytest.mark.parametrize(("years", "mend"), [(-30, "the clock is set"), (30, "a boot")])
def test_a_certificate_of_another_decade_is_replaced(
    fragile: Machine, years: int, mend: str
) -> None:
    faults.up(fragile)
    before = probe.credentials(fragile)
    fragile.exec([PYTHON, "-I", "-", str(years)], MAKE)
    fragile.exec(["systemctl", "reload", "nginx"])
    assert any("certificate" in what for what in faults.healthy(fragile))
    with faults.burglar(fragile):
        fragile.exec(["systemctl", "restart", *MENDS[mend]])
        faults.back(fragile, f"a clock {years:+d} years off, mended by {mend}")
    assert probe.credentials(fragile) == before
    assert faults.healthy(fragile) == []
