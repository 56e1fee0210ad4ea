"""`infinity-status --support` in a machine where secrets were left in every corner."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Iterator
from urllib.parse import quote

import probe
import pytest
from test_secrecy import shapes

from machine.instance import Machine

pytestmark = pytest.mark.boot

ARCHIVE = "/root/test-support.tar.gz"
USER_DATA_SECRET = "correct-horse-battery-staple-77"
OLD_KEY = "inf-" + "0f1e2d3c" * 6
ODD_KEY = "inf-" + "4b5a6978" * 6
TOKEN = "hf_" + "aBcD1234" * 4


@pytest.fixture
def archive(other: Machine) -> Iterator[bytes]:
    """What is in the archive, unpacked, one file after the other; secrets were planted before."""
    kept = other.exec(["cat", str(probe.PATHS.api_key_map)]).stdout
    data = f"#cloud-config\nruncmd:\n - [login, {USER_DATA_SECRET}]\n"
    user_data = "/var/lib/cloud/instance/user-data.txt"
    before = other.exec(["cat", user_data]).stdout
    try:
        other.exec(["tee", user_data], data)
        odd = f"# \"Bearer {OLD_KEY}\" 1;\n'Bearer {ODD_KEY}'\n\tx;\n"
        other.exec(["tee", str(probe.PATHS.api_key_map)], kept + odd)
        other.exec(f"echo 'HF_TOKEN={TOKEN}' >>/etc/infinity/infinity.env")
        for line in spoken(other):
            other.exec(["logger", "--tag=careless", "--priority=user.warning"], line + "\n")
            other.exec(["systemd-cat", "--priority=warning"], line + "\n")
            other.exec(["tee", "-a", "/var/log/nginx/error.log"], line + "\n")
        other.exec(["rm", "-f", ARCHIVE])
        other.exec(["infinity-status", "--support", ARCHIVE])
        yield other.exec(["cat", ARCHIVE]).raw_stdout
    finally:
        other.exec(["rm", "-f", ARCHIVE])
        other.exec(["tee", str(probe.PATHS.api_key_map)], kept)
        other.exec(["tee", user_data], before)
        other.exec("sed -i /^HF_TOKEN=/d /etc/infinity/infinity.env")


def known(machine: Machine) -> dict[str, str]:
    """Every secret that must not be told, by name."""
    found = {name: raw.decode() for name, raw in shapes(machine).items()}
    made = {"old key": OLD_KEY, "odd key": ODD_KEY, "user data": USER_DATA_SECRET, "token": TOKEN}
    return found | made


def spoken(machine: Machine) -> list[str]:
    """Lines as somebody careless logs them."""
    mine = probe.credentials(machine)
    lines = [f"user data said {USER_DATA_SECRET}", f"hash {known(machine)['hash']}"]
    for secret in (mine.api_key, mine.password, OLD_KEY):
        half = len(secret) // 2
        lines += [
            f"Authorization: Bearer {secret}",
            f"https://example.test/?key={quote(secret, safe='')}&x=1",
            base64.b64encode(f"admin:{secret}".encode()).decode(),
            base64.b64encode(f"x{secret}".encode()).decode(),
            secret.encode().hex(),
            f"first {secret[:half]}",
            f"then {secret[half:]}",
            "x" * 49120 + secret + " and on",  # journald cuts a line here
        ]
    return lines


def written(secret: str) -> Iterator[bytes]:
    """Forms of a secret, and its halves."""
    raw = secret.encode()
    half = len(secret) // 2
    yield raw
    yield quote(secret, safe="").encode()
    yield raw.hex().encode()
    yield raw[:half]
    yield raw[half:]
    for before in (b"", b"x", b"xx", b"admin:"):
        encoded = base64.b64encode(before + raw)
        yield encoded[len(before) + 4 : -4]


def unpacked(raw: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(raw)) as opened:
        members = {member.name: opened.extractfile(member) for member in opened}
        assert all(member.isreg() for member in opened)
        return {name: file.read() for name, file in members.items() if file}


def test_no_secret_is_in_the_archive_in_any_form(other: Machine, archive: bytes) -> None:
    files = unpacked(archive)
    everything = b"\n".join(files.values())
    assert b"[redacted]" in files["infinity-support/nginx/configuration.txt"]
    assert b"careless" in everything, "the journal must have what was planted"
    leaks = [
        (name, form)
        for name, secret in known(other).items()
        for form in written(secret)
        if form in everything
    ]
    assert leaks == []


def test_the_archive_has_what_support_asks_for(archive: bytes) -> None:
    files = unpacked(archive)
    manifest = json.loads(files.pop("infinity-support/manifest.json"))
    assert manifest["files"].keys() == {n.removeprefix("infinity-support/") for n in files}
    assert manifest["secrets_replaced"] > 10
    assert json.loads(files["infinity-support/status.json"])["schema"] == 1
    for name, telling in {
        "journal/infinity-firstboot.service.txt": b"Infinity is served at",
        "nginx/configuration.txt": b"# configuration file /etc/nginx/nginx.conf",
        "versions/opt-infinity-venv.txt": b"infinity_emb==0.0.77",
        "versions/packages.txt": b"nginx\t",
        "units/states.txt": b"infinity.service",
        "files/etc/infinity/infinity.env": b"MODEL=",
    }.items():
        assert telling in files[f"infinity-support/{name}"]


def test_only_root_can_read_it_and_nothing_in_the_way_is_touched(other: Machine) -> None:
    said = other.exec("infinity-status --support").stdout
    path = said.partition(":")[0]
    try:
        assert path.startswith("/root/infinity-support-")
        assert other.exec(["stat", "-c", "%a %U", path]).stdout == "600 root\n"
        again = other.exec(["infinity-status", "--support", path], check=False)
        assert again.returncode == 1
        assert "exists already" in again.stderr
    finally:
        other.exec(["rm", path])
    trap = "/tmp/trap.tar.gz"  # noqa: S108 - where others may write
    other.exec(["ln", "-s", "/etc/passwd.new", trap], user="ubuntu")
    trapped = other.exec(["infinity-status", "--support", trap], check=False)
    assert trapped.returncode == 1
    assert other.exec("test -e /etc/passwd.new", check=False).returncode == 1
    other.exec(["rm", trap])
