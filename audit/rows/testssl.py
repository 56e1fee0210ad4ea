"""testssl.sh over the network, with the machine's own certificate as the authority."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from audit.row import Row, judged
from machine.instance import Machine

GOOD = {"OK", "INFO"}
EXPECTED = {
    "cert_revocation": "a certificate that signs itself has nobody to revoke it",
    "engine_problem": "about the scanner's own OpenSSL: it lacks GOST, which is not offered here",
}


def rows(machine: Machine) -> Iterator[Row]:
    above = [finding for finding in findings(machine) if finding["severity"] not in GOOD]
    bad = sorted({finding["id"] for finding in above} - EXPECTED.keys())
    yield judged(
        "TLS",
        "testssl.sh",
        "nothing above INFO but self-signing",
        f"{len(bad)} {' '.join(bad)}".strip(),
        passed=not bad,
    )


def findings(machine: Machine) -> list[dict[str, str]]:
    """All that testssl.sh says; each has an ``id``, a ``severity`` and a ``finding``."""
    host = machine.credential("INFINITY_HOST")
    with tempfile.TemporaryDirectory() as folder:
        authority, report = Path(folder, "authority.pem"), Path(folder, "report.json")
        authority.write_text(machine.exec(["cat", "/etc/ssl/infinity/infinity.crt"]).stdout)
        run(
            [
                *("testssl", "--quiet", "--color", "0", "--warnings", "batch", "--nodns", "none"),
                *("--ip", machine.address, "--add-ca", authority),
                *("--jsonfile", report, f"{host}:443"),
            ],
            check=False,  # its status is the number of its findings
            timeout=1200,
        )
        try:
            found: list[dict[str, str]] = json.loads(report.read_text())
        except (OSError, ValueError) as error:
            raise ApplianceError(f"testssl.sh gave no answer: {error}") from error
    if not any(finding["id"] == "TLS1_3" for finding in found):
        raise ApplianceError("testssl.sh did not get as far as TLS 1.3.")
    return found
