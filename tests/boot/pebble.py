"""A real ACME certificate authority in a machine: Let's Encrypt's Pebble, with its name server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import probe

from machine import unpacked
from machine.instance import Machine

DIRECTORY = "https://localhost:14000/dir"
PROGRAMS = ("pebble", "pebble-challtestsrv")
FOLDER = "/opt/pebble"
_TRUSTED = "/usr/local/share/ca-certificates/pebble.crt"
_CONFIGURATION = {
    "listenAddress": "127.0.0.1:14000",
    "managementListenAddress": "127.0.0.1:15000",
    "certificate": f"{FOLDER}/tls.crt",
    "privateKey": f"{FOLDER}/tls.key",
    "httpPort": 80,
    "tlsPort": 443,
}
_START = f"""
set -e
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout {FOLDER}/tls.key -out {FOLDER}/tls.crt
cp {FOLDER}/tls.crt {_TRUSTED}
update-ca-certificates >/dev/null 2>&1
systemd-run --quiet --unit=test-names {FOLDER}/pebble-challtestsrv -defaultIPv4 127.0.0.1 \
    -defaultIPv6 "" -dns01 127.0.0.1:8053 -http01 "" -https01 "" -tlsalpn01 "" \
    -management 127.0.0.1:8055
systemd-run --quiet --unit=test-pebble --setenv=PEBBLE_VA_NOSLEEP=1 \
    --setenv=PEBBLE_WFE_NONCEREJECT=0 {FOLDER}/pebble \
    -config {FOLDER}/config.json -dnsserver 127.0.0.1:8053
"""
_STOP = f"""
systemctl stop test-pebble test-names
rm -rf {FOLDER} {_TRUSTED} /etc/letsencrypt/{{accounts,archive,csr,keys,live,renewal}}
update-ca-certificates --fresh >/dev/null 2>&1
"""


@contextmanager
def running(machine: Machine) -> Iterator[None]:
    """Every name leads to the machine itself, until ``unknown`` says otherwise."""
    machine.exec(["mkdir", "-p", FOLDER])
    for program in PROGRAMS:
        shutil.copy(unpacked.find(program, "pebble"), machine.root / FOLDER[1:])
    machine.exec(["tee", f"{FOLDER}/config.json"], json.dumps({"pebble": _CONFIGURATION}))
    try:
        machine.exec(_START)
        probe.eventually(lambda: _answers(machine), "Pebble's start", 30)
        yield
    finally:
        machine.exec(_STOP, check=False)


def unknown(machine: Machine, host: str) -> None:
    """Have the name server fail for this name."""
    asked = json.dumps({"host": f"{host}."})
    machine.exec(["curl", "-sf", "-d", asked, "http://127.0.0.1:8055/set-servfail"])


def _answers(machine: Machine) -> bool:
    return machine.exec(["curl", "-sf", DIRECTORY], check=False).returncode == 0
