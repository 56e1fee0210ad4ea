"""Each look reads what its tool says, and says so when there is nothing to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ca_support import issue
from firstboot_support import Disk, Metadata

from appliance import settings
from appliance.imds import MetadataError
from appliance.paths import Paths
from appliance.settings import Ports
from appliance.status import (
    access,
    certificate,
    gatelog,
    listening,
    reach,
    room,
    server,
    units,
    updates,
    who,
)
from appliance.status.collect import collect
from appliance.status.units import Shown

SS = """\
udp UNCONN 0 0 10.0.0.5%ens5:68 0.0.0.0:* users:(("systemd-network",pid=1,fd=2))
tcp LISTEN 0 511 0.0.0.0:443 0.0.0.0:* users:(("nginx",pid=2,fd=5),("nginx",pid=3,fd=5))
tcp LISTEN 0 511 [::]:443 [::]:* users:(("nginx",pid=2,fd=6))
tcp LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:(("sshd",pid=4,fd=3))
tcp LISTEN 0 2048 127.0.0.1:7997 0.0.0.0:* users:(("infinity_emb",pid=5,fd=6))
tcp LISTEN 0 5 127.0.0.1:631 0.0.0.0:* users:(("cupsd",pid=6,fd=6))
"""
METRICS = """\
process_start_time_seconds 1.796025e+09
infinity_requests_total{key="a",route="/embeddings",status="200"} 90.0
infinity_requests_total{key="none",route="/readyz",status="200"} 5.0
infinity_requests_total{key="b",route="/rerank",status="400"} 7.0
infinity_requests_total{key="b",route="/embeddings",status="503"} 3.0
infinity_request_seconds_bucket{le="0.1",route="/embeddings"} 50.0
infinity_request_seconds_bucket{le="0.2",route="/embeddings"} 90.0
infinity_request_seconds_bucket{le="+Inf",route="/embeddings"} 100.0
infinity_request_seconds_bucket{le="0.1",route="/readyz"} 1000.0
"""


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    made = Disk.fresh(tmp_path)
    made.boot()
    return made


def test_what_the_appliance_opens_is_expected() -> None:
    found = listening.parse(SS, Ports())
    assert [(each.port, each.process) for each in found if each.beyond_loopback] == [
        (22, "sshd"),
        (68, "systemd-network"),
        (443, "nginx"),
    ]
    assert all(each.expected for each in found)


@pytest.mark.parametrize(
    "line",
    [
        'tcp LISTEN 0 5 0.0.0.0:443 0.0.0.0:* users:(("python3",pid=9,fd=3))',
        'tcp LISTEN 0 5 [::]:7997 [::]:* users:(("infinity_emb",pid=9,fd=3))',
        'tcp LISTEN 0 5 127.0.0.1:7997 0.0.0.0:* users:(("python3",pid=9,fd=3))',
        'udp UNCONN 0 0 0.0.0.0:5353 0.0.0.0:* users:(("avahi",pid=9,fd=3))',
        "tcp LISTEN 0 5 10.0.0.5:9000 0.0.0.0:*",
    ],
)
def test_whatever_else_listens_is_not_expected(line: str) -> None:
    assert [each.expected for each in listening.parse(line, Ports())] == [False]


def test_only_work_is_counted_and_its_latency_interpolated() -> None:
    found = server.count(server.samples(METRICS))
    assert (found.total, found.succeeded, found.refused, found.failed) == (100, 90, 7, 3)
    assert found.p50_ms == 100.0
    assert found.p99_ms == 200.0
    assert found.since == "2026-11-30T07:50:00Z"


def test_a_server_without_requests_has_no_latency() -> None:
    found = server.count(server.samples("process_start_time_seconds 1.0\n"))
    assert (found.total, found.p50_ms) == (0, None)


def test_a_dead_server_is_down() -> None:
    assert server.model(1, "owner/name").state == "down"


def test_the_log_is_counted_past_lines_that_are_none(tmp_path: Path) -> None:
    lines = [json.dumps({"time": "t", "status": status}) for status in (200, 401, 502)]
    log = tmp_path / "access.log"
    log.write_text("\n".join([*lines, "{", "[]", '{"time":1}', ""]))
    found = gatelog.read(log)
    assert found
    assert (found.total, found.unauthorized, found.failed) == (3, 1, 1)


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    line = json.dumps({"time": "t", "status": 200}) + "\n"
    log = tmp_path / "access.log"
    log.write_text(line * (3 * gatelog.WINDOW // len(line)))
    found = gatelog.read(log)
    assert found
    assert found.total <= gatelog.WINDOW // len(line)


def test_units_are_read_whatever_is_missing() -> None:
    shown = units.parse("Id=a.service\nActiveState=active\nMemoryMax=infinity\n\nnonsense\n")
    assert shown["a.service"].active
    assert shown["a.service"].number("MemoryMax") is None
    assert shown["a.service"].number("NRestarts") is None


def test_a_boot_is_timed_by_the_monotonic_clock() -> None:
    values = {"ActiveState": "active", "InactiveExitTimestampMonotonic": "1000000",
              "ActiveEnterTimestampMonotonic": "2500000"}  # fmt: skip
    found = units.first_boot({"infinity-firstboot.service": Shown(values)})
    assert (found.result, found.seconds) == ("success", 1.5)


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("Inst libssl3 [1] (2 Debian-Security:12/stable-security [amd64])", 1),
        ("Inst libssl3 [1] (2 Ubuntu:24.04/noble-updates, Ubuntu:24.04/noble-security [amd64])", 1),
        ("Inst security-tool [1] (2 Debian:12.9/stable [amd64])", 0),
        ("Conf libssl3 (2 Debian-Security:12/stable-security [amd64])", 0),
    ],
)
def test_updates_from_a_security_archive_count(said: str, number: int) -> None:
    assert updates.waiting(said) == number


def test_a_broken_count_is_none(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"security": "x"}'):
        (tmp_path / "count.json").write_text(text)
        assert updates.load(tmp_path / "count.json") is None


def test_keys_are_named_and_never_shown(disk: Disk) -> None:
    key = "inf-" + "0" * 48
    disk.paths.api_key_map.write_text(
        f'"Bearer {key}" search;\n"Bearer {key[:-1]}1" "{key}";\n\'bearer abc\' 1; "~*x" y;\n'
    )
    found = access.api_keys(disk.paths)
    assert [each.name for each in found.keys] == ["search", access.HIDDEN, "unnamed"]
    assert found.unread == 1
    assert key not in repr(found)


@pytest.mark.parametrize("line", ["", "# off\n", "admin:\n", "admin:!\n", "other:$2y$05$x\n"])
def test_a_login_without_a_hash_is_disabled(disk: Disk, line: str) -> None:
    disk.paths.htpasswd.write_text(line)
    assert not access.login(disk.paths).enabled


def test_the_credentials_file_is_compared_with_what_is_accepted(disk: Disk) -> None:
    known = settings.required(disk.paths)
    assert access.credentials_file(disk.paths, known).untrue == ()
    text = disk.paths.credentials.read_text()
    wrong = text.replace("_KEY=inf-", "_KEY=inf-0").replace("_PASSWORD=", "_PASSWORD=x")
    disk.paths.credentials.write_text(wrong.replace("_HOST=", "_HOST=x"))
    assert access.credentials_file(disk.paths, known).untrue == (
        "INFINITY_HOST",
        "INFINITY_API_KEY",
        "INFINITY_PASSWORD",
    )
    disk.paths.credentials.unlink()
    assert not access.credentials_file(disk.paths, known).present


def test_our_certificate_is_told_from_the_operators(disk: Disk) -> None:
    known = settings.required(disk.paths)
    found = certificate.read(disk.paths, known)
    assert (found.maker, found.covers_host, found.key_matches) == ("instance", True, True)
    assert 820 < found.days_left <= 825
    disk.paths.certificate.write_bytes(issue(known.hostname, hosts=[known.hostname]).pem)
    found = certificate.read(disk.paths, known)
    assert (found.maker, found.covers_host, found.key_matches) == ("operator", True, False)


def test_an_instance_without_a_stamp_or_metadata_is_nobody(tmp_path: Path) -> None:
    found = who.instance(Paths(tmp_path), Metadata(failure=MetadataError("silent")))
    assert (found.id, found.type, found.metadata_id) == (None, None, None)


def test_memory_and_disks_are_measured(tmp_path: Path) -> None:
    assert room.memory(Shown({})).available > 0
    assert all(each.size >= each.free for each in room.disks(Path("/")))
    (tmp_path / "meminfo").write_text("")
    with pytest.raises(KeyError):
        room.memory(Shown({}), tmp_path / "meminfo")


def test_nothing_stops_a_process_that_is_in_no_closed_group() -> None:
    assert reach.verdicts(["127.0.0.1"]) == {"127.0.0.1": "open"}


def test_everything_broken_at_once_is_reported_and_not_raised(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.state.mkdir(parents=True)
    paths.settings.write_bytes(b"\xff\xfe")
    paths.credentials.mkdir(parents=True)  # a folder where a file should be
    paths.api_key_map.parent.mkdir(parents=True)
    paths.api_key_map.symlink_to(paths.api_key_map)  # a loop
    parts = collect(paths)
    missing = {each.part for each in parts.unknown}
    assert {"host", "api_keys", "login", "certificate", "requests", "gate_log"} <= missing
    assert all(each.reason for each in parts.unknown)
