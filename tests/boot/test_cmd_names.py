"""Names and certificates in a machine: changed while clients call, by hand, by ACME, in vain."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import nullcontext

import pebble
import probe
import pytest
from cryptography import x509
from steady import steady
from test_cmd_access import CHANGE, disk_full, fails_without_a_trace, nginx_broken

from appliance import tls
from machine.instance import Machine

pytestmark = pytest.mark.boot

NEW = "embeddings.example.com"
CERTIFICATE, KEY = str(probe.PATHS.certificate), str(probe.PATHS.certificate_key)
SSL = str(probe.PATHS.certificate.parent)
NOW = dt.datetime.now(dt.UTC)
COMMANDS = (
    "infinity-set-hostname killed.example.com alias.example.com",
    "infinity-set-certificate --cert /opt/pair/crt --key /opt/pair/key",
)


@pytest.fixture
def named(other: Machine) -> Iterator[Machine]:
    """To change: afterwards its metadata's name and a certificate of its own are back."""
    probe.eventually(lambda: probe.request(other, "/readyz").status_code == 200, "readiness", 120)
    yield other
    other.exec("infinity-set-certificate --self-signed && infinity-set-hostname --auto")
    probe.serves(other)


def bring(machine: Machine, *hosts: str) -> str:
    """Lay an operator's pair for these names into the machine; returns the certificate."""
    names = ",".join(f"DNS:{host}" for host in hosts)
    machine.exec(
        "mkdir -p /opt/pair && cd /opt/pair && umask 077 && openssl req -x509 -nodes -days 9 "
        f"-newkey rsa:2048 -keyout key -out crt -subj '/CN=Theirs' -addext subjectAltName={names} "
        "2>/dev/null"
    )
    return machine.exec("cat /opt/pair/crt").stdout


def shown(machine: Machine) -> x509.Certificate:
    """What nginx shows."""
    ask = "openssl s_client -connect 127.0.0.1:443 </dev/null 2>/dev/null | openssl x509"
    return x509.load_pem_x509_certificate(machine.exec(ask).stdout.encode())


def on_disk(machine: Machine) -> str:
    return machine.exec(["cat", CERTIFICATE]).stdout


def lay_own(machine: Machine, days: int) -> None:
    """Put a certificate of its own into place that was made some days from now."""
    key = machine.exec(["cat", KEY]).stdout.encode()
    host = probe.credentials(machine).host
    made = tls.self_signed(key, [host], NOW + dt.timedelta(days=days))
    machine.exec(["tee", CERTIFICATE], made.decode())


def test_clients_meet_no_failure_while_names_and_certificate_change(named: Machine) -> None:
    before = probe.credentials(named)
    bring(named, NEW, before.host)
    with steady(named, host=before.host) as calls:
        named.exec(f"infinity-set-hostname {NEW} {before.host}")
        assert probe.serves(named).host == NEW
        named.exec(COMMANDS[1])
        named.exec("infinity-set-certificate --self-signed")
        named.exec("infinity-set-hostname --auto")
    assert calls.failed == []
    assert calls.asked > 4
    assert probe.credentials(named) == before
    assert len(x509.load_pem_x509_certificates(on_disk(named).encode())) == 1
    assert probe.hangs_up(named, "/health", NEW)


def test_a_pair_put_there_by_hand_is_left_alone(named: Machine) -> None:
    host = probe.credentials(named).host
    theirs = bring(named, host)
    named.exec(
        f"install -m 600 /opt/pair/key {KEY} && install -m 644 /opt/pair/crt {CERTIFICATE} "
        "&& systemctl reload nginx"
    )
    named.exec(["rm", str(probe.PATHS.settings)])
    named.exec(["systemctl", "restart", "infinity-firstboot.service", "nginx.service"])
    named.exec(["systemctl", "start", "infinity-renew.service"])
    done = named.exec(f"infinity-set-hostname {NEW}")
    assert "does not cover" in done.stderr
    assert on_disk(named) == theirs
    assert shown(named) == x509.load_pem_x509_certificate(theirs.encode())


@pytest.mark.parametrize("full", [False, True], ids=["", "disk full"])
@pytest.mark.parametrize("days", [-3000, 3000], ids=["expired", "not yet valid"])
def test_a_boot_with_a_certificate_out_of_date_opens_443(
    named: Machine, days: int, full: bool
) -> None:
    lay_own(named, days)
    key = named.exec(["cat", KEY]).stdout
    with disk_full(named, SSL) if full else nullcontext():
        named.exec(["systemctl", "restart", "infinity-firstboot.service", "nginx.service"])
        assert probe.open_port(named, 443)
        renewed = not tls.is_due(on_disk(named).encode(), NOW)
        assert renewed is not full
    named.exec(["systemctl", "restart", "nginx.service", "infinity-renew.service"])
    probe.serves(named)
    assert named.exec(["cat", KEY]).stdout == key


def test_the_daily_look_renews_while_clients_call(named: Machine) -> None:
    lay_own(named, -800)
    named.exec(["systemctl", "reload", "nginx"])
    old = x509.load_pem_x509_certificate(on_disk(named).encode())
    probe.eventually(lambda: shown(named) == old, "the reload", 10)
    with steady(named) as calls:
        named.exec(["systemctl", "start", "infinity-renew.service"])
    assert calls.failed == []
    assert shown(named) == x509.load_pem_x509_certificate(on_disk(named).encode()) != old
    assert named.exec("systemctl is-enabled infinity-renew.timer").stdout == "enabled\n"


def test_a_certificate_is_ordered_and_renewed_by_acme(named: Machine) -> None:
    host = probe.credentials(named).host
    acme = f"--acme ops@example.com --acme-server {pebble.DIRECTORY}"
    with pebble.running(named):
        pebble.unknown(named, "nobody.example.com")
        said = fails_without_a_trace(named, f"infinity-set-hostname nobody.example.com {acme}")
        assert "was not issued" in said
        with steady(named, host=host) as calls:
            named.exec(f"infinity-set-hostname {NEW} {host} {acme}")
            first = shown(named)
            named.exec("certbot renew --quiet --no-random-sleep-on-renew --force-renewal")
        assert calls.failed == []
        assert first.issuer != first.subject
        assert shown(named) == x509.load_pem_x509_certificate(on_disk(named).encode()) != first
        assert probe.credentials(named).host == NEW


@pytest.mark.parametrize("command", COMMANDS)
def test_where_nginx_refuses_names_and_pair_stay(other: Machine, command: str) -> None:
    bring(other, probe.credentials(other).host)
    with nginx_broken(other):
        assert "Nothing was changed." in fails_without_a_trace(other, command)


@pytest.mark.parametrize("command", COMMANDS)
def test_where_the_disk_is_full_names_and_pair_stay(other: Machine, command: str) -> None:
    bring(other, probe.credentials(other).host)
    with disk_full(other, SSL):
        assert "No space left on device" in fails_without_a_trace(other, command)


@pytest.mark.parametrize("command", COMMANDS)
def test_killed_in_the_middle_names_and_pair_stay(other: Machine, command: str) -> None:
    bring(other, probe.credentials(other).host)
    before, files = probe.secrets(other), probe.credentials(other)
    other.exec(
        f"{command} >/dev/null & pid=$!; until [ -e {CHANGE} ]; do kill -0 $pid || exit 3; done; "
        "kill -KILL $pid; wait $pid; exit 0"
    )
    probe.eventually(
        lambda: other.exec(["test", "-e", CHANGE], check=False).returncode == 1, "the way back"
    )
    assert probe.secrets(other) == before
    assert probe.serves(other) == files


@pytest.mark.parametrize(
    "words",
    [
        ["infinity-set-hostname", "a.test; reboot"],
        ["infinity-set-hostname", "a.test\n"],
        ["infinity-set-hostname", "*.test"],
        ["infinity-set-certificate", "--cert", "/etc/shadow", "--key", "/dev/zero", "--force"],
    ],
)
def test_hostile_words_change_nothing(other: Machine, words: list[str]) -> None:
    before = probe.secrets(other)
    done = other.exec(words, check=False)
    assert done.returncode == 2
    assert probe.secrets(other) == before


def test_a_key_never_shows_in_what_is_said(other: Machine) -> None:
    bring(other, probe.credentials(other).host)
    swapped = "infinity-set-certificate --cert /opt/pair/key --key /opt/pair/crt"
    done = other.exec(f"chmod 600 /opt/pair/crt; {swapped}", check=False)
    assert done.returncode == 1
    secret = other.exec("sed -n 2p /opt/pair/key").stdout.strip()
    assert secret not in done.stdout + done.stderr
    assert secret not in other.exec("journalctl --no-pager").stdout
