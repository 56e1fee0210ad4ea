"""Certificates by ACME (RFC 8555): certbot orders and renews them, nginx shows its challenges.

certbot runs outside every lock of ours. What it obtained goes through the checks that the
operator's own certificate goes through, and only then to nginx.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from appliance import certificates, hostname
from appliance.activate import NewFile
from appliance.apply import locked
from appliance.command import UsageError
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.paths import Paths
from appliance.run import run
from appliance.settings import Settings

if TYPE_CHECKING:  # it reads certificates in full, which takes long to import
    from appliance.chain import Pair

LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"
LINEAGE = "infinity"  # certbot's name for our certificate
PATIENCE = 300.0  # seconds
_EMAIL = re.compile(r"[^\s@,;<>\"'-][^\s@,;<>\"']*@[A-Za-z0-9.-]+")
_SERVER = re.compile(r"https://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~/-]*)?")


def order(hosts: Sequence[str], email: str, server: str, paths: Paths) -> None:
    """Have a certificate for these names; nothing is done where there is one that is fresh.

    Args:
        hosts: in the form of ``names.normal``.
        email: where the certificate authority may write to.
        server: its directory's URL.
        paths: where certbot's files are.

    Raises:
        UsageError: something cannot be ordered for, or asked of.
        ApplianceError: why there is no certificate; nothing that is served has changed.
    """
    hostname.for_certificate_authority(hosts)
    if not _EMAIL.fullmatch(email):
        raise UsageError(f"{email!r} is no e-mail address.", "Give one, such as ops@example.com.")
    if not _SERVER.fullmatch(server):
        raise UsageError(f"{server!r} is no HTTPS URL.", "Give that of the ACME directory.")
    names = [word for host in hosts for word in ("-d", host)]
    # Another certificate authority than before is no reason to renew, to certbot.
    again = ["--force-renewal"] if _server(paths) not in {"", server} else ["--keep-until-expiring"]
    with locked(paths.order_lock):
        done = run(
            [
                "certbot", "certonly", "--non-interactive", "--agree-tos", "--no-eff-email",
                "--email", email, "--server", server, "--cert-name", LINEAGE,
                "--key-type", "ecdsa", "--renew-with-new-domains", *again,
                "--webroot", "--webroot-path", paths.acme_webroot, *names,
            ],
            check=False,
            timeout=PATIENCE,
        )  # fmt: skip
    if done.returncode != 0:
        raise ApplianceError(
            f"The certificate was not issued: {_reason(done.stdout + done.stderr, paths)}. "
            "Nothing that is served was changed.",
            "The names must lead to this instance and port 80 be open to the internet; "
            "/var/log/letsencrypt/letsencrypt.log tells all.",
        )


def ordered(hosts: Sequence[str], paths: Paths, now: dt.datetime) -> Pair:
    """The newest certificate that certbot has for us, checked.

    Raises:
        ApplianceError: it is missing, or not for all of these names.
    """
    from appliance import chain  # noqa: PLC0415 - slow to import

    live = paths.letsencrypt / "live" / LINEAGE
    pem, key = (certificates.read(live / name) for name in ("fullchain.pem", "privkey.pem"))
    return chain.checked(pem, key, hosts, now)


def newer(settings: Settings, gate: Gate, now: dt.datetime) -> list[NewFile]:
    """What to write where certbot has renewed the certificate that nginx shows.

    One that certbot did not make is the operator's, and stays.
    """
    from appliance import tls  # noqa: PLC0415 - slow to import

    folder = gate.paths.letsencrypt
    shown = tls.first(certificates.read(gate.paths.certificate))
    made = [path.read_bytes() for path in (folder / "archive" / LINEAGE).glob("cert*.pem")]
    newest = tls.first(certificates.read(folder / "live" / LINEAGE / "fullchain.pem"))
    if shown == newest or shown not in map(tls.first, made):
        return []
    return certificates.operators(ordered(settings.hosts, gate.paths, now), gate)


def _server(paths: Paths) -> str:
    """Where the present certificate comes from; empty when there is none."""
    text = certificates.read(paths.letsencrypt / "renewal" / f"{LINEAGE}.conf").decode()
    found = re.search(r"^server\s*=\s*(\S+)", text, re.MULTILINE)
    return found[1] if found else ""


def _reason(said: str, paths: Paths) -> str:
    """What the certificate authority objects to, else certbot's last sentence.

    Some of its objections certbot 2.1 under Python 3.11 tells to its log alone.
    """
    details = re.findall(r"^\s*Detail: (.+)$", said, re.MULTILINE)
    log = certificates.read(paths.letsencrypt_log).decode("utf-8", "replace")
    logged = re.findall(r"^acme\.messages\.Error: (.+)$", log, re.MULTILINE)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if not line.startswith(("Ask for help", "See the logfile"))]
    return "; ".join(dict.fromkeys(details or logged[-1:] or errors[-1:])).rstrip(".")
