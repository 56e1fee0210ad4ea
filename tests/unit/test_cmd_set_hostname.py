"""`infinity-set-hostname` on a disk: everything says the new name, or nothing does."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ca_support import DAY, NOW, issue
from command_support import Ran, break_nginx, ran, state
from firstboot_support import FIRST, HOST, OTHER_HOST, Disk, metadata

from appliance import settings, tls
from appliance.command import UsageError
from appliance.commands import set_hostname
from machine.imds import Emulator

NEW = "embeddings.example.com"


@pytest.fixture
def imds(tmp_path: Path) -> Iterator[str]:
    """The URL of a metadata service that has another public name."""
    file = tmp_path / "metadata.json"
    file.write_text(json.dumps({"instance-id": FIRST, "public-hostname": OTHER_HOST}))
    with Emulator(("127.0.0.1", 0), file) as emulator:
        thread = threading.Thread(target=emulator.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{emulator.server_address[1]}"
        emulator.shutdown()
        thread.join()


def change(disk: Disk, *words: str) -> Ran:
    return ran(disk, "set_hostname", *words)


def names(disk: Disk) -> list[str]:
    pem = disk.paths.certificate.read_bytes()
    return [str(name.value) for name in tls._alternatives(pem)]


def test_name_and_aliases_are_everywhere_and_secrets_stay(booted: Disk) -> None:
    before = booted.secrets()
    done = change(booted, NEW, HOST, "203.0.113.7", HOST)
    assert done.status == 0, done.error
    assert done.output.splitlines()[0] == f"https://{NEW}/"
    assert booted.secrets() == before
    assert booted.paths.hostname.read_text() == f"{NEW}\n"
    assert names(booted) == [NEW, HOST, "203.0.113.7"]
    assert f"server_name {NEW} {HOST} 203.0.113.7;" in booted.paths.nginx_site.read_text()
    known = settings.required(booted.paths)
    assert (known.hostname, known.aliases, known.followed) == (NEW, (HOST, "203.0.113.7"), False)
    booted.boot(metadata(FIRST, OTHER_HOST))
    assert settings.required(booted.paths) == known


def test_a_new_call_replaces_the_aliases(booted: Disk) -> None:
    change(booted, NEW, HOST)
    assert change(booted, NEW).status == 0
    booted.assert_whole(NEW)
    assert names(booted) == [NEW]


def test_the_certificate_that_clients_have_comes_back_with_its_name(booted: Disk) -> None:
    known = booted.paths.certificate.read_bytes()
    change(booted, NEW)
    assert change(booted, HOST).status == 0
    assert booted.paths.certificate.read_bytes() == known


def test_metadatas_name_comes_back(booted: Disk, imds: str) -> None:
    change(booted, NEW)
    done = change(booted, "--auto", "--imds-url", imds)
    assert done.status == 0, done.error
    assert done.output == f"https://{OTHER_HOST}/\n"
    assert not booted.paths.hostname.exists()
    assert settings.required(booted.paths).followed
    booted.assert_whole(OTHER_HOST)


def test_metadata_that_is_silent_changes_nothing(booted: Disk) -> None:
    change(booted, NEW)
    before = state(booted)
    done = change(booted, "--auto", "--imds-url", "http://127.0.0.1:1")
    assert done.status == 1
    assert "metadata" in done.error
    assert state(booted) == before


@pytest.mark.parametrize(
    ("written", "meant"),
    [("Büro.Example", "xn--bro-hoa.example"), ("EMBED.example", "embed.example"),
     ("2001:DB8::1", "[2001:db8::1]")],
)  # fmt: skip
def test_a_name_is_brought_into_its_one_form(booted: Disk, written: str, meant: str) -> None:
    done = change(booted, written)
    assert done.status == 0, done.error
    assert settings.required(booted.paths).hostname == meant
    assert (f"{written} is {meant}" in done.error) is not written.isascii()


@pytest.mark.parametrize(
    "hostile",
    ["", " ", "a b.test", "*.a.test", "a.test;", "a.test\n", "\na.test", "a.test.", "a..test",
     "-a.test", "a_b.test", "$host", "a.test{", "#a", "x" * 64 + ".test", ("x" * 60 + ".") * 5,
     "10.0.0.256", "fe80::1%eth0", "http://a.test/", "a.test:443", "é" * 70, "\udcff", "a\u3002"],
)  # fmt: skip
def test_what_is_no_name_is_refused(hostile: str) -> None:
    with pytest.raises(UsageError, match="neither a DNS name nor"):
        set_hostname.understood([NEW, hostile])


@pytest.mark.parametrize("words", [("a.test;",), (NEW, "a.test\n"), ("--auto", "*"), ("--atuo",)])
def test_wrong_use_changes_nothing(booted: Disk, words: tuple[str, ...]) -> None:
    before = state(booted)
    done = change(booted, *words)
    assert done.status == 2
    assert "Traceback" not in done.error
    assert state(booted) == before


def test_what_nginx_refuses_changes_nothing(booted: Disk) -> None:
    break_nginx(booted)
    before = state(booted)
    done = change(booted, NEW)
    assert done.status == 1
    assert "Nothing was changed." in done.error
    assert done.output == ""
    assert state(booted) == before


def test_a_certificate_of_the_operators_stays_and_its_gap_is_told(booted: Disk) -> None:
    theirs = issue(HOST, hosts=[HOST])
    booted.paths.certificate.write_bytes(theirs.pem)
    booted.paths.certificate_key.write_bytes(theirs.key_pem)
    assert change(booted, HOST).error == ""
    done = change(booted, NEW, HOST)
    assert done.status == 0
    assert f"does not cover {NEW}" in done.error
    assert "infinity-set-certificate --cert" in done.error
    assert booted.paths.certificate.read_bytes() == theirs.pem
    assert json.loads(change(booted, "--json").output)["not_in_certificate"] == [NEW]


def test_without_a_name_it_tells_and_changes_nothing(booted: Disk) -> None:
    before = state(booted)
    assert change(booted).output == f"https://{HOST}/\n"
    assert json.loads(change(booted, "--json").output) == {
        "hostname": HOST,
        "aliases": [],
        "url": f"https://{HOST}/",
        "source": "metadata",
        "not_in_certificate": [],
    }
    assert state(booted) == before


def test_before_first_boot_it_says_what_to_do(disk: Disk) -> None:
    disk.paths.state.mkdir(parents=True)
    for words in ((), (NEW,)):
        done = change(disk, *words)
        assert done.status == 1
        assert "systemctl start infinity-firstboot" in done.error


CERTBOT = """\
#!/bin/sh
printf '%s\\n' "$@" >{said}
echo "  Detail: no such domain" >&2
exit {status}
"""


@pytest.fixture
def certbot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A certbot that fails; it leaves its arguments in the file."""
    said, program = tmp_path / "said", tmp_path / "bin/certbot"
    program.parent.mkdir()
    program.write_text(CERTBOT.format(said=said, status=1))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return said


def test_an_order_that_fails_changes_nothing(booted: Disk, certbot: Path) -> None:
    before = state(booted)
    done = change(booted, NEW, "www.example.com", "--acme", "ops@example.com")
    assert done.status == 1
    assert "not issued: no such domain" in done.error
    assert state(booted) == before
    words = certbot.read_text().split("\n")
    assert words[words.index("--email") + 1] == "ops@example.com"
    assert [words[index + 1] for index, word in enumerate(words) if word == "-d"] == [
        NEW, "www.example.com"
    ]  # fmt: skip


def test_what_certbot_tells_only_to_its_log_is_told(booted: Disk, certbot: Path) -> None:
    program = Path(os.environ["PATH"].partition(":")[0]) / "certbot"
    program.write_text('#!/bin/sh\necho "AttributeError: can\'t set attribute" >&2\nexit 1\n')
    log = booted.paths.letsencrypt_log
    log.parent.mkdir(parents=True)
    log.write_text("acme.messages.Error: urn:ietf:params:acme:error:rateLimited :: too many\n")
    done = change(booted, NEW, "--acme", "ops@example.com")
    assert "rateLimited :: too many" in done.error
    assert not certbot.exists()


@pytest.mark.parametrize(
    "words",
    [("203.0.113.7", "--acme", "a@b.test"), ("local", "--acme", "a@b.test"),
     (NEW, "--acme", "nobody"), (NEW, "--acme", "--force"), (NEW, "--acme", "-a@b.test"),
     (NEW, "--acme", "a@b.test", "--acme-server", "http://ca.test/dir"),
     (NEW, "--acme", "a@b.test", "--acme-server", "--staging"), ("--acme", "a@b.test")],
)  # fmt: skip
def test_what_cannot_be_ordered_is_not(booted: Disk, certbot: Path, words: tuple[str, ...]) -> None:
    before = state(booted)
    assert change(booted, *words).status == 2
    assert state(booted) == before
    assert not certbot.exists(), "certbot was asked"


def lay_lineage(disk: Disk, number: int, pem: bytes, key: bytes) -> None:
    """As certbot does: each certificate numbered, links to the newest."""
    archive = disk.paths.letsencrypt / "archive/infinity"
    live = disk.paths.letsencrypt / "live/infinity"
    for folder in (archive, live):
        folder.mkdir(parents=True, exist_ok=True)
    for name, data in (("cert", pem), ("fullchain", pem), ("privkey", key)):
        file, link = archive / f"{name}{number}.pem", live / f"{name}.pem"
        file.write_bytes(data)
        link.unlink(missing_ok=True)
        link.symlink_to(file)


def test_what_certbot_renewed_is_shown_and_what_it_did_not_make_stays(booted: Disk) -> None:
    first, second = (issue(HOST, hosts=[HOST]) for _ in range(2))
    lay_lineage(booted, 1, first.pem, first.key_pem)
    booted.paths.certificate.write_bytes(first.pem)
    booted.paths.certificate_key.write_bytes(first.key_pem)
    assert "No certificate is due" in ran(booted, "renew").output
    lay_lineage(booted, 2, second.pem, second.key_pem)
    assert "was renewed" in ran(booted, "renew").output
    assert booted.paths.certificate.read_bytes() == second.pem
    theirs = issue(HOST, hosts=[HOST])
    booted.paths.certificate.write_bytes(theirs.pem)
    booted.paths.certificate_key.write_bytes(theirs.key_pem)
    assert "No certificate is due" in ran(booted, "renew").output
    assert booted.paths.certificate.read_bytes() == theirs.pem


def test_what_certbot_renewed_is_checked_first(booted: Disk) -> None:
    first, wrong = issue(HOST, hosts=[HOST]), issue(OTHER_HOST, hosts=[OTHER_HOST])
    booted.paths.certificate.write_bytes(first.pem)
    booted.paths.certificate_key.write_bytes(first.key_pem)
    lay_lineage(booted, 1, first.pem, first.key_pem)
    lay_lineage(booted, 2, wrong.pem, wrong.key_pem)
    done = ran(booted, "renew")
    assert done.status == 1
    assert "does not cover" in done.error
    assert booted.paths.certificate.read_bytes() == first.pem


@pytest.mark.parametrize("days", [-2000, -800, 2000])
def test_our_own_is_renewed_by_its_key(booted: Disk, days: int) -> None:
    before = booted.secrets()
    booted.paths.certificate.write_bytes(tls.self_signed(before[2], [HOST], NOW + days * DAY))
    assert "was renewed" in ran(booted, "renew").output
    booted.assert_whole()
    assert booted.secrets() == before
    assert not tls.is_due(booted.paths.certificate.read_bytes(), NOW)


def test_what_a_cut_left_beside_our_certificate_goes(booted: Disk) -> None:
    mine = booted.paths.certificate.read_bytes()
    booted.paths.certificate.write_bytes(mine + issue(HOST).pem)
    assert ran(booted, "renew").status == 0
    assert booted.paths.certificate.read_bytes() == mine
