"""First boot meets what goes wrong: it says so in one sentence, the gate stays shut, and once the
cause is mended ``systemctl start infinity-firstboot`` finishes the job."""

from __future__ import annotations

import re
import secrets

import probe
import pytest

from appliance.run import run
from machine.instance import Machine

pytestmark = pytest.mark.boot

UNIT = "infinity-firstboot.service"
RETRY = "infinity-firstboot-retry.timer"
TEMPLATE = "/opt/infinity/appliance/lib/templates/infinity-site.conf.j2"
HUB = "/var/lib/infinity/hf/hub"

# What an instance can be called by.
NAMES = ("public-hostname", "public-ipv4", "local-hostname", "local-ipv4")

# A file system that holds what the folder holds, and not a byte more.
FILL = """
    kept=$(mktemp -d)
    cp -a {folder}/. "$kept"
    mount -t tmpfs -o size=1m,mode=$(stat -c %a {folder}) tmpfs {folder}
    cp -a "$kept/." {folder}
    head -c 2M /dev/zero >{folder}/.filler 2>/dev/null
    rm -rf "$kept"
"""


def unborn(machine: Machine) -> None:
    """As if this machine had never booted: no identity, a name to serve, metadata in order."""
    gone = [*probe.IDENTITY, probe.PATHS.nginx_site, probe.PATHS.settings, probe.PATHS.stamp]
    machine.exec(["systemctl", "stop", "nginx.service"])
    machine.exec(["rm", "-f", *map(str, gone)])
    machine.metadata.pop("fault", None)
    machine.metadata["public-hostname"] = f"ec2-{secrets.token_hex(4)}.compute.test"


def fails(machine: Machine, about: str) -> None:
    """Start first boot anew; it must fail with one sentence about ``about`` and nginx stay down."""
    machine.exec(["systemctl", "restart", UNIT], check=False, timeout=60)
    refuses(machine, about)


def refuses(machine: Machine, about: str) -> None:
    machine.exec(["systemctl", "stop", RETRY])  # an attempt that is under way has to end first
    probe.eventually(lambda: probe.state(machine, UNIT) == "failed", "the end of first boot")
    lines = probe.said(machine, UNIT)
    told = [line for line in lines if "Hint:" in line]
    assert len(told) == 1, lines
    assert re.search(about, told[0], re.IGNORECASE), told[0]
    assert not any("Traceback" in line for line in lines)
    assert probe.state(machine, "nginx.service") != "active"
    assert not probe.open_port(machine, 443)


def finishes(machine: Machine) -> probe.Credentials:
    machine.exec(["systemctl", "start", UNIT])
    probe.gate_up(machine)
    return probe.serves(machine)


def test_instance_without_any_name_says_so_and_takes_one_from_the_operator(
    fragile: Machine,
) -> None:
    unborn(fragile)
    fragile.metadata.update(dict.fromkeys(NAMES))
    fails(fragile, r"name")
    fragile.exec(
        "mkdir -p /etc/cloudimg && echo chosen.example.com >/etc/cloudimg/infinity-hostname"
    )
    assert finishes(fragile).host == "chosen.example.com"
    fragile.exec(["rm", "/etc/cloudimg/infinity-hostname"])
    for name in NAMES:
        del fragile.metadata[name]


def test_machine_without_metadata_says_so_and_serves_the_operators_name(offline: Machine) -> None:
    refuses(offline, r"metadata")
    offline.exec(
        "mkdir -p /etc/cloudimg && echo chosen.example.com >/etc/cloudimg/infinity-hostname"
    )
    assert finishes(offline).host == "chosen.example.com"


@pytest.mark.parametrize("fault", ["unauthorized", "error", "garbage", "hang"])
def test_broken_metadata_service_is_named_and_later_followed(fragile: Machine, fault: str) -> None:
    unborn(fragile)
    fragile.metadata["fault"] = fault
    fails(fragile, r"metadata")
    del fragile.metadata["fault"]
    assert finishes(fragile).host == fragile.metadata["public-hostname"]


def test_broken_metadata_service_does_not_cost_a_stored_identity(fragile: Machine) -> None:
    unborn(fragile)
    fragile.exec(["systemctl", "restart", UNIT, "nginx.service"])
    before = probe.serves(fragile)
    fragile.metadata["fault"] = "unauthorized"
    fragile.exec(["systemctl", "restart", UNIT, "nginx.service"], timeout=60)
    del fragile.metadata["fault"]
    assert probe.serves(fragile) == before


def test_template_that_does_not_render_is_named(fragile: Machine) -> None:
    unborn(fragile)
    kept = fragile.exec(["cat", TEMPLATE]).stdout
    fragile.exec(["tee", TEMPLATE], kept + "{{ a_name_nobody_gave }}\n")
    fails(fragile, r"infinity-site\.conf\.j2|a_name_nobody_gave")
    fragile.exec(["tee", TEMPLATE], kept)
    finishes(fragile)


@pytest.mark.parametrize(
    "folder", ["/var/lib/infinity-appliance", "/etc/ssl/infinity", "/etc/nginx", "/root"]
)
def test_full_disk_is_named_wherever_it_strikes(fragile: Machine, folder: str) -> None:
    unborn(fragile)
    fragile.exec(["mkdir", "-p", folder])
    fragile.exec(FILL.format(folder=folder))
    try:
        fails(fragile, r"space")
    finally:
        fragile.exec(["umount", "--lazy", folder])
    finishes(fragile)


@pytest.mark.parametrize("kind", ["no certificate", "another's key"])
def test_certificate_that_nginx_refuses_is_named(fragile: Machine, kind: str) -> None:
    unborn(fragile)
    fragile.exec(["systemctl", "restart", UNIT, "nginx.service"])
    before = probe.serves(fragile)
    path = str(probe.PATHS.certificate if kind == "no certificate" else probe.PATHS.certificate_key)
    kept = fragile.exec(["cat", path]).stdout
    wrong = "no certificate\n" if kind == "no certificate" else strange_key()
    fragile.exec(["tee", path], wrong)
    fails(fragile, r"certificate|key")
    fragile.exec(["tee", path], kept)
    assert finishes(fragile) == before


def strange_key() -> str:
    argv = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    return run(argv).stdout


def test_missing_model_is_503_with_retry_after_until_it_is_there(shared: Machine) -> None:
    mine = probe.serves(shared)
    shared.exec(f"mount -t tmpfs -o uid=infinity,gid=infinity,mode=750 tmpfs {HUB}")
    try:
        shared.exec(["systemctl", "restart", "infinity.service"], check=False, timeout=60)
        answer = probe.request(shared, "/v1/models", headers=mine.bearer)
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json()["error"].keys() >= {"message", "type", "code"}
        assert probe.request(shared, "/healthz").status_code == 200
        assert probe.request(shared, "/readyz").status_code == 503
        assert probe.request(shared, "/models").status_code == 401, "the gate comes first"
        for unit in ("infinity-model.service", "infinity.service"):
            journal = shared.exec(["journalctl", "--quiet", "--output=cat", "-n8", "-u", unit])
            assert f"The model {mine.model} could not be downloaded" in journal.stdout
    finally:
        shared.exec(["umount", "--lazy", HUB])
    shared.exec(["systemctl", "start", UNIT])
    probe.eventually(lambda: ready(shared), "the model's return", 120)
    assert probe.request(shared, "/v1/models", headers=mine.bearer).status_code == 200


def ready(machine: Machine) -> bool:
    return probe.request(machine, "/readyz").status_code == 200
