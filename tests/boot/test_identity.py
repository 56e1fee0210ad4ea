"""Whose secrets an instance has: its own, kept over reboots, never those of another."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import probe
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from machine import names
from machine.instance import Machine

pytestmark = pytest.mark.boot


@pytest.fixture
def clone(other: Machine) -> Iterator[Machine]:
    """A copy of the disk of ``other`` as another instance."""
    Machine(names.place("test-clone")).down()
    try:
        machine = Machine.up("test-clone", source=other.name, wait=False)
        probe.gate_up(machine)
        yield machine
    finally:
        Machine(names.place("test-clone")).down()


def in_common(one: Machine, two: Machine) -> list[str]:
    """The names of the secrets that two machines share."""
    first, second = probe.secrets(one), probe.secrets(two)
    assert first.keys() == second.keys()
    assert len(first) >= 8, "three host keys, the machine-id, key, password, certificate, hash"
    return [name for name in first if first[name] == second[name]]


def host_key(machine: Machine) -> str:
    return machine.exec("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout


def test_two_machines_of_one_image_share_no_secret(shared: Machine, other: Machine) -> None:
    assert in_common(shared, other) == []


def test_secrets_are_long_enough_and_shaped_as_said(shared: Machine) -> None:
    mine = probe.credentials(shared)
    prefix, _, digits = mine.api_key.partition("-")
    assert prefix == "inf"
    assert len(bytes.fromhex(digits)) * 8 == 192
    assert digits == digits.lower()
    assert len(mine.password) * 6 >= 192, "64 letters, digits and signs hold 6 bits each"
    hashed = shared.exec(["cat", str(probe.PATHS.htpasswd)]).stdout
    assert hashed.startswith(f"{mine.username}:$2")


def test_secret_files_are_readable_by_nobody_else(shared: Machine) -> None:
    wanted = {
        probe.PATHS.credentials: "600 root",
        probe.PATHS.certificate_key: "600 root",
        probe.PATHS.api_key_map: "600 root",
        probe.PATHS.htpasswd: "640 root",
    }
    for path, mode in wanted.items():
        assert shared.exec(["stat", "-c", "%a %U", str(path)]).stdout.strip() == mode, path
    for user in ("infinity", "ubuntu", "nobody"):
        for path in (probe.PATHS.credentials, probe.PATHS.certificate_key, probe.PATHS.api_key_map):
            assert shared.exec(["cat", str(path)], user=user, check=False).returncode != 0


def test_certificate_is_of_the_host_for_825_days(shared: Machine) -> None:
    pem = shared.exec(["cat", str(probe.PATHS.certificate)]).raw_stdout
    certificate = x509.load_pem_x509_certificate(pem)
    host = probe.credentials(shared).host
    (common,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    (company,) = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert (common.value, company.value) == (host, "cloudimg")
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert alternatives.value.get_values_for_type(x509.DNSName) == [host]
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert 824 <= life.days <= 826


def test_clone_under_another_instance_id_shares_nothing_and_refuses_the_original_key(
    other: Machine, clone: Machine
) -> None:
    assert in_common(other, clone) == []
    stolen = probe.credentials(other)
    assert probe.request(clone, "/models", headers=stolen.bearer).status_code == 401
    login = (stolen.username, stolen.password)
    assert probe.request(clone, "/models", auth=login).status_code == 401
    assert probe.serves(clone).host != stolen.host
    assert probe.said(clone, "infinity-firstboot.service"), "its journal goes by its new machine-id"


def test_reboot_keeps_every_secret(other: Machine) -> None:
    before = probe.secrets(other)
    other.reboot(wait=False)
    probe.gate_up(other)
    assert probe.secrets(other) == before
    probe.serves(other)


def test_stop_and_start_with_a_new_public_name_serves_it_and_closes_the_old(other: Machine) -> None:
    before, key = probe.serves(other), other.exec(["cat", str(probe.PATHS.certificate_key)]).stdout
    identity = host_key(other)
    other.stop()
    other.metadata["public-hostname"] = "ec2-198-51-100-9.compute.test"
    other.metadata["public-ipv4"] = "198.51.100.9"
    other.start(wait=False)
    probe.gate_up(other)
    after = probe.serves(other)  # checks the certificate for the new name
    assert after.host == "ec2-198-51-100-9.compute.test"
    assert (after.api_key, after.password) == (before.api_key, before.password)
    assert probe.hangs_up(other, "/health", before.host)
    assert not probe.hangs_up(other, "/health", after.host)
    assert other.exec(["cat", str(probe.PATHS.certificate_key)]).stdout == key
    assert host_key(other) == identity


def test_name_the_operator_set_stays_over_a_new_public_name(other: Machine) -> None:
    other.exec(
        "mkdir -p /etc/cloudimg && echo vectors.example.com >/etc/cloudimg/infinity-hostname"
    )
    other.metadata["public-hostname"] = "ec2-198-51-100-10.compute.test"
    other.reboot(wait=False)
    probe.gate_up(other)
    mine = probe.serves(other)
    other.exec(["rm", "/etc/cloudimg/infinity-hostname"])
    other.exec(["systemctl", "restart", "infinity-firstboot.service", "nginx.service"])
    assert mine.host == "vectors.example.com"
    assert mine.url == "https://vectors.example.com/"


def test_plain_copy_of_basic_credentials_in_other_case_is_refused(shared: Machine) -> None:
    mine = probe.credentials(shared)
    flipped = base64.b64encode(f"{mine.username}:{mine.password.swapcase()}".encode()).decode()
    headers = {"Authorization": f"Basic {flipped}"}
    assert probe.request(shared, "/models", headers=headers).status_code == 401
