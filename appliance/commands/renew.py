"""Renew the certificate that nginx shows, if it is due.

One of this instance's own is replaced 30 days before its end, by its own key; one that certbot
ordered as soon as certbot has renewed it. Yours stays. systemd runs this daily.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys

from appliance import acme, certificates, command
from appliance.gate import Gate


def main() -> int:
    return command.run(command.parser("infinity-renew", __doc__, "sudo infinity-renew"), renew)


def renew(_options: argparse.Namespace, gate: Gate) -> None:
    now = dt.datetime.now(dt.UTC)
    with command.changing(gate) as known:
        files = certificates.fitting(known, gate, now) or acme.newer(known, gate, now)
        if files:
            certificates.put(files, known, gate)
    print("The certificate was renewed." if files else "No certificate is due.")


if __name__ == "__main__":
    sys.exit(main())
