"""The gate check passes the gate as it is, and sees every way in that somebody opens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ca_support import DAY, NOW, issue
from gate_harness import HOST, KEY, PASSWORD, REPO, Gate, running_gate
from gate_stub import Stub

from appliance import settings, tls, verify
from appliance.apply import target
from appliance.errors import ApplianceError
from appliance.paths import Paths
from appliance.run import run
from appliance.settings import Ports, Settings


def settings_of(gate: Gate, host: str = HOST) -> Settings:
    return Settings(
        hostname=host,
        model="m",
        followed=True,
        ports=Ports(gate.https_port, gate.http_port),
    )


def target_of(gate: Gate) -> verify.Target:
    return verify.Target(settings_of(gate), Paths(gate.root), KEY, PASSWORD)


def test_the_gate_passes(gate: Gate) -> None:
    checks = verify.probe(target_of(gate))
    assert [check.name for check in checks if not check.passed] == []
    assert len(checks) == 10


@pytest.mark.parametrize(
    ("file", "edit", "found"),
    [
        ("infinity/gate.conf", ("auth_basic $infinity_realm;", "auth_basic off;"), "no credential"),
        ("infinity/key.conf", ("[^A-Z]+$", ".+$"), "letter's case"),
        ("infinity/key.conf", ("include infinity-apikey.map;", ""), "the API key"),
        (
            "infinity/gate.conf",
            ("user_file .infinity.htpasswd;", "user_file infinity-site.conf;"),
            "the password",
        ),
        ("infinity/https-server.conf", ("return 403;", "break;"), "cross-origin"),
        ("infinity/unknown-host.conf", ("return 444;", "return 200;"), "unknown Host"),
        ("infinity/probes.conf", ("location = /healthz", "location = /other"), "/healthz"),
        ("infinity-site.conf", ("return 301 https://", "return 301 http://"), "plain HTTP"),
    ],
)
def test_a_hole_is_named(
    tmp_path: Path, stub: Stub, file: str, edit: tuple[str, str], found: str
) -> None:
    with running_gate(tmp_path / "root", stub.port, {file: edit}) as gate:
        with pytest.raises(ApplianceError, match="check of the credential gate failed") as caught:
            verify.require(target_of(gate))
        assert found in caught.value.message
        assert KEY not in str(caught.value)
        assert PASSWORD not in str(caught.value)


def test_a_certificate_for_another_name_is_named(gate: Gate) -> None:
    wrong = settings_of(gate, "elsewhere.test")
    with pytest.raises(ApplianceError, match=r"TLS handshake as elsewhere\.test failed"):
        verify.require(verify.Target(wrong, Paths(gate.root), KEY, PASSWORD))


def show(gate: Gate, certificate: bytes, key: bytes) -> None:
    gate.certificate.write_bytes(certificate)
    gate.certificate.with_suffix(".key").write_bytes(key)
    gate.reload()


def test_the_operators_certificate_may_be_for_another_name_and_out_of_date(
    tmp_path: Path, stub: Stub
) -> None:
    theirs = issue("elsewhere.test", hosts=["elsewhere.test"], starts=NOW - 9 * DAY, ends=NOW - DAY)
    with running_gate(tmp_path / "root", stub.port) as gate:
        show(gate, theirs.pem, theirs.key_pem)
        verify.require(target_of(gate))


@pytest.mark.parametrize("kind", ["rsa:2048", "ec:<(openssl ecparam -name prime256v1)"])
def test_a_self_signed_one_in_our_name_is_not_judged_as_one_of_ours(
    tmp_path: Path, stub: Stub, kind: str
) -> None:
    made = ["openssl req -x509 -nodes -subj '/CN=elsewhere.test/O=cloudimg' -keyout key -out crt"]
    run(["bash", "-c", " ".join([*made, "-newkey", kind])], cwd=tmp_path)
    with running_gate(tmp_path / "root", stub.port) as gate:
        show(gate, (tmp_path / "crt").read_bytes(), (tmp_path / "key").read_bytes())
        verify.require(target_of(gate))


def test_a_certificate_that_nginx_has_not_taken_is_named(tmp_path: Path, stub: Stub) -> None:
    with running_gate(tmp_path / "root", stub.port) as gate:
        gate.certificate.write_bytes(issue("elsewhere.test").pem)
        with pytest.raises(ApplianceError, match="another certificate"):
            verify.require(target_of(gate))


@pytest.mark.parametrize("days", [-900, 900])
def test_a_clock_that_is_years_off_is_no_reason_to_stop_nginx(
    tmp_path: Path, stub: Stub, days: int
) -> None:
    key = tls.new_key()
    with running_gate(tmp_path / "root", stub.port) as gate:
        show(gate, tls.self_signed(key, [HOST], NOW + days * DAY), key)
        verify.require(target_of(gate))


def test_a_certificate_of_ours_for_another_name_is_named(tmp_path: Path, stub: Stub) -> None:
    key = tls.new_key()
    with running_gate(tmp_path / "root", stub.port) as gate:
        show(gate, tls.self_signed(key, ["elsewhere.test"], NOW), key)
        with pytest.raises(ApplianceError, match="TLS handshake as localhost failed"):
            verify.require(target_of(gate))


@pytest.mark.parametrize("text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nx"])
def test_a_file_without_a_certificate_is_named(gate: Gate, tmp_path: Path, text: str) -> None:
    paths = Paths(tmp_path)
    paths.certificate.parent.mkdir(parents=True)
    paths.certificate.write_text(text)
    with pytest.raises(ApplianceError, match="holds no certificate"):
        verify.require(verify.Target(settings_of(gate), paths, KEY, PASSWORD))


def test_a_key_without_letters_still_has_a_wrong_neighbour() -> None:
    assert verify.flipped("0123") != "0123"
    assert verify.flipped("inf-09af") == "inf-09aF"


def test_a_stale_password_in_the_credentials_file_is_not_tried(gate: Gate) -> None:
    paths = Paths(gate.root)
    paths.credentials.parent.mkdir(exist_ok=True)
    paths.credentials.write_text(f"INFINITY_PASSWORD={PASSWORD}\n")
    assert target(settings_of(gate), paths).password == PASSWORD
    paths.credentials.write_text("INFINITY_PASSWORD=of-last-year\n")
    assert target(settings_of(gate), paths).password is None
    paths.credentials.unlink()
    assert target(settings_of(gate), paths).password is None


def test_the_command_passes_and_fails_by_its_exit_status(gate: Gate) -> None:
    paths = Paths(gate.root)
    command = [sys.executable, "-m", "appliance.commands.gate_check", "--root", str(gate.root)]

    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)

    unborn = check()
    assert unborn.returncode == 1
    assert "no identity yet" in unborn.stderr
    paths.state.mkdir(parents=True)
    paths.settings.write_text(settings.as_text(settings_of(gate)))
    assert check().returncode == 0
