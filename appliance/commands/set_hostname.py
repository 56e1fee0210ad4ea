"""Serve this instance under a DNS name of yours, and under more names if you like.

Without a name it prints what is served. The first name is the one in the credentials file and in
redirects; the others are served as well. Certificate, nginx and credentials file follow in one
change, the API keys and the login stay, and so do open connections.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Sequence

from appliance import acme, certificates, command, facts, hostname, names, settings
from appliance.activate import NewFile
from appliance.command import UsageError
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.imds import DEFAULT_URL, Imds
from appliance.settings import Settings

METADATA_PATIENCE = 5.0  # seconds: somebody waits, and it answers in milliseconds


def main() -> int:
    return command.run(arguments(), act)


def arguments() -> argparse.ArgumentParser:
    example = (
        "sudo infinity-set-hostname embeddings.example.com\n"
        "  sudo infinity-set-hostname embeddings.example.com --acme ops@example.com"
    )
    parser = command.parser("infinity-set-hostname", __doc__, example)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the name, then its aliases")
    parser.add_argument(
        "--auto",
        action="store_true",
        help="follow the name in instance metadata; every NAME is an alias then",
    )
    parser.add_argument(
        "--acme", metavar="EMAIL", help="have Let's Encrypt certify the names, and renew that"
    )
    parser.add_argument(
        "--acme-server", metavar="URL", default=acme.LETS_ENCRYPT, help="another ACME directory"
    )
    parser.add_argument("--json", action="store_true", help="print what is served as JSON")
    parser.add_argument("--imds-url", default=DEFAULT_URL, help=argparse.SUPPRESS)
    return parser


def act(options: argparse.Namespace, gate: Gate) -> None:
    given = understood(options.names)
    if given or options.auto:
        followed = [told_by_metadata(options.imds_url, gate)] if options.auto else []
        serve([*followed, *given], options, gate)
    elif options.acme:
        raise UsageError("--acme needs the names to certify.", "See --help.")
    show(gate, as_json=options.json)


def understood(given: Sequence[str]) -> list[str]:
    """Each name in its one form; a name in other letters becomes its ASCII form, and that is said.

    Raises:
        UsageError: one is no name.
    """
    normal = []
    for name in given:
        try:
            normal.append(names.normal(name))
        except ApplianceError as error:
            raise UsageError(error.message, error.hint) from error
        if not name.isascii():
            print(f"{name} is {normal[-1]} in DNS and for clients.", file=sys.stderr)
    return normal


def told_by_metadata(url: str, gate: Gate) -> str:
    return hostname.of_metadata(facts.gather(Imds(url, METADATA_PATIENCE), gate.paths))


def serve(told: Sequence[str], options: argparse.Namespace, gate: Gate) -> None:
    if options.acme:
        # Outside the lock: it takes as long as the certificate authority does.
        acme.order(told, options.acme, options.acme_server, gate.paths)
    with command.changing(gate) as known:
        wanted = hostname.renamed(known, told, followed=options.auto)
        files = [*hostname.files(wanted, gate), *certificate(wanted, gate, ordered=options.acme)]
        certificates.put(files, wanted, gate)


def certificate(wanted: Settings, gate: Gate, *, ordered: bool) -> list[NewFile]:
    now = dt.datetime.now(dt.UTC)
    if ordered:
        return certificates.operators(acme.ordered(wanted.hosts, gate.paths, now), gate)
    return certificates.fitting(wanted, gate, now)


def show(gate: Gate, *, as_json: bool) -> None:
    """What is served, and on standard error what clients will object to."""
    from appliance import tls  # noqa: PLC0415 - --help and wrong use do not pay for it

    known = settings.required(gate.paths)
    missing = tls.uncovered(certificates.read(gate.paths.certificate), known.hosts)
    if as_json:
        print(json.dumps({
            "hostname": known.hostname,
            "aliases": list(known.aliases),
            "url": known.url,
            "source": "metadata" if known.followed else "operator",
            "not_in_certificate": missing,
        }, indent=2))  # fmt: skip
    else:
        print(known.url)
        for alias in known.aliases:
            print(f"{alias} is served as well")
    if missing:
        print(
            f"Warning: the certificate is yours and does not cover {', '.join(missing)}: clients "
            "will refuse it. `infinity-set-certificate --cert FILE --key FILE` takes another one, "
            "`infinity-set-certificate --self-signed` has this instance make one; `--acme EMAIL` "
            "beside the names orders one.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    sys.exit(main())
