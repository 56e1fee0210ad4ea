"""Security updates that install themselves, tried with one of nginx that we make."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import probe
import pytest

from machine.instance import Machine

pytestmark = pytest.mark.boot

VERSION = "99:1.0"
ARCHIVE = Path(__file__).parent / "security-archive.sh"


@contextmanager
def strangers(machine: Machine, seen: set[str]) -> Iterator[None]:
    """Requests without a key, all the time; ``seen`` gets every status, or how it failed."""
    host, over = probe.credentials(machine).host, threading.Event()

    def ask() -> None:
        while not over.is_set():
            with httpx.Client(verify=False, timeout=5, trust_env=False) as client:  # noqa: S501 - a stranger
                try:
                    url = f"https://{machine.address}/models"
                    seen.add(str(client.get(url, headers={"Host": host}).status_code))
                except httpx.HTTPError as error:
                    seen.add(type(error).__name__)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_security_update_of_nginx_installs_itself_and_never_opens_the_gate(
    fragile: Machine,
) -> None:
    probe.gate_up(fragile)
    configuration = fragile.exec("sha256sum /etc/nginx/nginx.conf /etc/nginx/infinity/*").stdout
    fragile.exec(["bash", "-s", "--", VERSION], ARCHIVE.read_text())
    apt = "APT_CONFIG=/tmp/archive/apt.conf"
    seen: set[str] = set()
    try:
        fragile.exec(f"{apt} apt-get -qq update")
        with strangers(fragile, seen):
            said = fragile.exec(f"{apt} unattended-upgrade -v 2>&1", timeout=300).stdout
    finally:
        fragile.exec("rm -rf /tmp/archive /var/lib/apt/lists/*archive*")
    version = fragile.exec(["dpkg-query", "-W", "-f", "${Version}", "nginx"]).stdout
    assert version == VERSION, said
    assert "200" not in seen
    assert "401" in seen
    assert probe.state(fragile, "nginx.service") == "active"
    probe.serves(fragile)
    after = fragile.exec("sha256sum /etc/nginx/nginx.conf /etc/nginx/infinity/*").stdout
    assert after == configuration


def test_update_of_a_library_restarts_what_uses_it(fragile: Machine) -> None:
    """Or nginx would go on with the OpenSSL that had the hole."""
    probe.gate_up(fragile)
    before = probe.show(fragile, "nginx.service", "MainPID")
    fragile.exec(
        "library=$(ldconfig -p | sed -n 's/.*libssl.so.3 .*=> //p' | head -1)"
        ' && library=$(readlink -f "$library") && cp -p "$library" "$library.new"'
        ' && mv "$library.new" "$library"'
    )
    # As the hook of dpkg's runs it after every installation.
    fragile.exec("DEBIAN_FRONTEND=noninteractive needrestart", timeout=300)
    assert probe.show(fragile, "nginx.service", "MainPID") != before
    probe.gate_up(fragile)
    probe.serves(fragile)


def test_updates_come_daily_by_themselves(shared: Machine) -> None:
    for timer in ("apt-daily.timer", "apt-daily-upgrade.timer"):
        assert probe.state(shared, timer) == "active"
    said = shared.exec(["apt-config", "dump"]).stdout
    assert 'APT::Periodic::Unattended-Upgrade "1";' in said
    origins = [line for line in said.splitlines() if "Unattended-Upgrade::" in line]
    assert any("security" in line.lower() for line in origins)
