"""Show clients your own certificate, or one that this instance makes.

FILE of --cert holds the certificate and then each issuer's (a root may be left out); FILE of --key
its private key without a passphrase. Both are checked, with each other and against the names that
are served, before anything is changed. Open connections stay up.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path

from appliance import certificates, command, intake
from appliance.command import UsageError
from appliance.gate import Gate
from appliance.glance import look


def main() -> int:
    return command.run(arguments(), act)


def arguments() -> argparse.ArgumentParser:
    example = "sudo infinity-set-certificate --cert fullchain.pem --key privkey.pem"
    parser = command.parser("infinity-set-certificate", __doc__, example)
    parser.add_argument("--cert", type=Path, metavar="FILE", help="the certificate's chain, PEM")
    parser.add_argument("--key", type=Path, metavar="FILE", help="its private key, PEM, chmod 600")
    parser.add_argument(
        "--self-signed", action="store_true", help="return to a certificate of this instance's own"
    )
    return parser


def act(options: argparse.Namespace, gate: Gate) -> None:
    given = (options.cert is not None, options.key is not None)
    if options.self_signed == any(given) or any(given) != all(given):
        raise UsageError("Give --cert and --key, or --self-signed.", "See --help.")
    if options.self_signed:
        make_own(gate)
    else:
        take(options.cert, options.key, gate)
    report(gate)


def make_own(gate: Gate) -> None:
    with command.changing(gate) as known:
        files = certificates.ours_again(known, gate, dt.datetime.now(dt.UTC))
        certificates.put(files, known, gate)


def take(certificate: Path, key: Path, gate: Gate) -> None:
    from appliance import chain  # noqa: PLC0415 - --help and wrong use do not pay for it

    with command.changing(gate) as known:
        chain_pem, key_pem = intake.read(certificate), intake.read(key, secret=True)
        pair = chain.checked(chain_pem, key_pem, known.hosts, dt.datetime.now(dt.UTC))
        certificates.put(certificates.operators(pair, gate), known, gate)


def report(gate: Gate) -> None:
    seen = look(gate.paths.certificate)
    if seen:
        whose = "this instance's own certificate; clients need its copy" if seen.ours else "yours"
        print(f"nginx shows {whose}. It is valid until {seen.ends:%Y-%m-%d}.")


if __name__ == "__main__":
    sys.exit(main())
