"""A fleet's shared secret: read from Secrets Manager, checked, in memory, never the instance's own.

Secrets Manager is moto's server, which speaks AWS's protocol; nothing here reaches AWS.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Iterator

import bcrypt
import boto3
import pytest
from botocore.client import BaseClient
from command_support import Ran, ran, state
from firstboot_support import OTHER_HOST, SECOND, Disk, metadata
from moto.server import ThreadedMotoServer

from appliance import fleet, identity, keyring, secrets_manager
from appliance.commands import fleet_sync, publish_credentials
from appliance.errors import ApplianceError

KEY, NEW_KEY = "inf-" + "0a1b2c3d" * 6, "inf-" + "4e5f6a7b" * 6
PASSWORD = "a password for the fleet"
ROLE = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_EC2_METADATA_DISABLED": "true",
}
MISSING = "arn:aws:secretsmanager:us-east-1:123456789012:secret:missing-AbCdEf"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ROLE.items():
        monkeypatch.setenv(name, value)


class Account:
    """Secrets in one AWS account."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.aws = boto3.Session().client(
            "secretsmanager", region_name="us-east-1", endpoint_url=endpoint
        )

    def secret(self, value: object) -> str:
        """A new secret; returns its ARN."""
        text = value if isinstance(value, str) else json.dumps(value)
        name = os.urandom(8).hex()
        return str(self.aws.create_secret(Name=name, SecretString=text)["ARN"])

    def change(self, arn: str, value: object) -> None:
        self.aws.put_secret_value(SecretId=arn, SecretString=json.dumps(value))

    def join(self, disk: Disk, arn: str, name: str = "FLEET_SECRET_ARN") -> None:
        """As user data does."""
        disk.paths.fleet.mkdir(exist_ok=True)
        disk.paths.fleet_env.write_text(
            f"{name}={arn}\nAWS_ENDPOINT_URL_SECRETS_MANAGER={self.endpoint}\n"
        )


@pytest.fixture
def account(endpoint: str) -> Account:
    return Account(endpoint)


@pytest.fixture
def member(disk: Disk, account: Account) -> Disk:
    """An instance that has booted into a fleet."""
    account.join(disk, account.secret({"api_keys": {"search": KEY}, "password": PASSWORD}))
    assert fetch(disk).status == 0
    disk.boot()
    return disk


def fetch(disk: Disk) -> Ran:
    return ran(disk, "fleet_sync", "--fetch")


def arn_of(disk: Disk) -> str:
    return fleet.configured(disk.paths).shared


def test_a_member_lets_the_fleets_key_and_login_in_and_has_none_of_its_own(member: Disk) -> None:
    assert [(key.name, key.token) for key in keyring.accepted(member.paths)] == [("search", KEY)]
    user, _, hashed = member.paths.htpasswd.read_text().strip().partition(":")
    assert user == "admin"
    assert bcrypt.checkpw(PASSWORD.encode(), hashed.encode())
    told = identity.read_credentials(member.paths)
    assert list(told) == ["INFINITY_HOST", "INFINITY_URL", "INFINITY_MODEL"]
    member.gate.test()


def test_no_shared_secret_is_on_the_disk(member: Disk) -> None:
    root = member.paths.root
    on_disk = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    found = [
        str(path)
        for path in on_disk
        if path.is_relative_to(root) and not path.is_relative_to(root / "run")
        if KEY.encode() in (raw := path.read_bytes()) or PASSWORD.encode() in raw
    ]
    assert found == []
    assert member.paths.htpasswd.is_symlink()


def test_a_member_whose_secret_was_not_fetched_does_not_serve(disk: Disk, account: Account) -> None:
    account.join(disk, account.secret({"api_key": KEY}))
    with pytest.raises(ApplianceError, match="has not been read"):
        disk.boot()
    assert not disk.paths.api_key_map.exists()
    assert not disk.paths.credentials.exists()
    assert fetch(disk).status == 0
    disk.boot()
    assert [key.token for key in keyring.accepted(disk.paths)] == [KEY]


def test_after_a_reboot_the_memory_is_empty_and_the_secret_is_needed_again(member: Disk) -> None:
    for path in (member.paths.fleet_api_key_map, member.paths.fleet_htpasswd):
        path.unlink()
    with pytest.raises(ApplianceError, match="has not been read"):
        member.boot()
    assert fetch(member).status == 0
    member.boot()


def test_a_copy_of_a_member_has_an_identity_of_its_own_and_the_fleets_keys(member: Disk) -> None:
    before = member.paths.certificate_key.read_bytes()
    member.boot(metadata(SECOND, OTHER_HOST))
    assert member.paths.certificate_key.read_bytes() != before
    assert [key.token for key in keyring.accepted(member.paths)] == [KEY]


def test_an_instance_with_keys_of_its_own_gives_them_up_when_it_joins(
    booted: Disk, account: Account
) -> None:
    own = identity.load(booted.paths).api_key
    account.join(booted, account.secret({"api_key": KEY}))
    assert fetch(booted).status == 0
    booted.boot()
    assert [key.token for key in keyring.accepted(booted.paths)] == [KEY]
    assert own not in booted.paths.credentials.read_text()


def test_a_changed_secret_is_taken_over_and_an_unchanged_one_leaves_all(
    member: Disk, account: Account
) -> None:
    unchanged = ran(member, "fleet_sync")
    assert (unchanged.status, unchanged.output) == (0, "")
    account.change(arn_of(member), {"api_keys": {"search": [NEW_KEY, KEY]}})
    done = ran(member, "fleet_sync")
    assert done.status == 0, done.error
    assert [key.token for key in keyring.accepted(member.paths)] == [NEW_KEY, KEY]
    assert ":" not in member.paths.htpasswd.read_text(), "no password any more, so no login"
    assert KEY not in done.output + done.error
    assert member.paths.api_key_map.is_symlink()


BAD = {
    "no JSON": "inf-...",
    "a list": [KEY],
    "no key": {"password": PASSWORD},
    "an empty list": {"api_keys": {}},
    "keys as text": {"api_keys": KEY},
    "a short key": {"api_key": "inf-short"},
    "capitals": {"api_key": KEY.upper()},
    "a directive": {"api_keys": {"x": 'a" 1; include /etc/shadow; #' + "0" * 32}},
    "a directive as name": {"api_keys": {'x"; default 1; #': KEY}},
    "the login's name": {"api_keys": {"login": KEY}},
    "a number": {"api_key": 1},
    "a password as number": {"api_key": KEY, "password": 123456789012},
    "one key twice": {"api_key": KEY, "api_keys": {"x": KEY}},
    "a long key": {"api_key": "0a" * 200},
    "half a character": '{"api_key": "' + KEY + '", "password": "' + "\\ud800" * 12 + '"}',
    "nothing but brackets": "[" * 60000,
    "a short password": {"api_key": KEY, "password": "short"},
    "a line end in the password": {"api_key": KEY, "password": "root:x\n" * 3},
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
def test_a_secret_that_is_not_right_is_refused_and_not_told(value: object) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(ApplianceError) as caught:
        fleet.parsed(text)
    assert caught.value.hint
    for part in (KEY, "inf-short", PASSWORD, "/etc/shadow"):
        assert part.lower() not in str(caught.value).lower()


def test_where_the_secret_is_spoiled_the_fleet_goes_on_with_what_it_has(
    member: Disk, account: Account
) -> None:
    account.change(arn_of(member), {"api_key": "inf-short"})
    before = state(member), member.paths.fleet_api_key_map.read_bytes()
    assert ran(member, "fleet_sync").status == 1
    assert (state(member), member.paths.fleet_api_key_map.read_bytes()) == before


def test_one_member_cannot_go_its_own_way(member: Disk) -> None:
    for words in (("add", "x"), ("rotate", "search"), ("revoke", "search")):
        done = ran(member, "api_key", *words)
        assert done.status == 1
        assert "infinity-fleet-sync" in done.error
    assert ran(member, "set_password", "--generate").status == 1
    assert [key.token for key in keyring.accepted(member.paths)] == [KEY]


def test_a_secret_that_is_not_there_is_one_sentence(disk: Disk, account: Account) -> None:
    account.join(disk, MISSING)
    done = fetch(disk)
    assert done.status == 1
    assert "ResourceNotFoundException" in done.error
    assert "secretsmanager:GetSecretValue" in done.error


def test_an_endpoint_that_is_not_there_is_one_sentence(disk: Disk) -> None:
    Account("http://127.0.0.1:9").join(disk, MISSING)
    done = fetch(disk)
    assert done.status == 1
    assert "EndpointConnectionError" in done.error


def test_without_a_role_nothing_is_asked(
    disk: Disk, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.join(disk, account.secret({"api_key": KEY}))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("HOME", str(disk.paths.root))
    assert "NoCredentialsError" in fetch(disk).error


@pytest.mark.parametrize("arn", ["", "arn:aws:s3:::bucket", "x", MISSING + "\n;", MISSING + ' "'])
def test_what_is_no_arn_is_not_sent_anywhere(disk: Disk, arn: str) -> None:
    with pytest.raises(ApplianceError, match="no ARN"):
        secrets_manager.read(arn)
    disk.paths.fleet_env.write_text("# nothing\n")
    assert fetch(disk).output == "This instance belongs to no fleet.\n"


def test_an_instance_publishes_its_own_credentials(booted: Disk, account: Account) -> None:
    arn = account.secret("{}")
    account.join(booted, arn, "CREDENTIALS_SECRET_ARN")
    done = ran(booted, "publish_credentials")
    assert done.status == 0, done.error
    published = json.loads(account.aws.get_secret_value(SecretId=arn)["SecretString"])
    assert published == identity.read_credentials(booted.paths)
    assert published["INFINITY_API_KEY"] not in done.output + done.error
    booted.boot()
    assert ran(booted, "api_key", "add", "own").status == 0, "it belongs to no fleet"


def test_a_deleted_credentials_file_does_not_empty_the_secret(
    booted: Disk, account: Account
) -> None:
    arn = account.secret({"kept": "yes"})
    account.join(booted, arn, "CREDENTIALS_SECRET_ARN")
    booted.paths.credentials.unlink()
    assert ran(booted, "publish_credentials").status == 0
    assert json.loads(account.aws.get_secret_value(SecretId=arn)["SecretString"]) == {"kept": "yes"}


@pytest.mark.parametrize(
    "line",
    ["export FLEET_SECRET_ARN=" + MISSING, "FLEET_SECRET_ARN=", "FLEET_SECRET_ARN: " + MISSING,
     "\ufeffFLEET_SECRET_ARN=" + MISSING, "FLEET_SECRET_ARM=" + MISSING],
)  # fmt: skip
def test_a_slip_in_fleet_env_does_not_make_an_instance_with_keys_of_its_own(
    disk: Disk, line: str
) -> None:
    disk.paths.fleet_env.write_text(line + "\n")
    with pytest.raises(ApplianceError, match=r"fleet\.env"):
        disk.boot()
    assert not disk.paths.api_key_map.exists()


def test_an_instance_that_has_not_joined_does_not_say_it_has(
    booted: Disk, account: Account
) -> None:
    account.join(booted, account.secret({"api_key": KEY}))
    done = ran(booted, "fleet_sync")
    assert done.status == 1
    assert "has not joined" in done.error


def test_where_the_login_is_off_the_fleets_password_is_none(disk: Disk, account: Account) -> None:
    disk.paths.login_off.touch()
    account.join(disk, account.secret({"api_key": KEY, "password": PASSWORD}))
    assert fetch(disk).status == 0
    assert ":" not in disk.paths.fleet_htpasswd.read_text()


def test_nothing_is_published_where_nobody_asked(booted: Disk) -> None:
    assert ran(booted, "publish_credentials").output == "No secret is named to publish to.\n"


def _no_secret(_disk: Disk, _patch: pytest.MonkeyPatch) -> str:
    return MISSING


def _no_role(disk: Disk, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(boto3, "DEFAULT_SESSION", None)  # it remembers what it has found
    patch.delenv("AWS_ACCESS_KEY_ID")
    patch.setenv("HOME", str(disk.paths.root))
    return MISSING


def _silence(_disk: Disk, patch: pytest.MonkeyPatch) -> str:
    """Somebody takes the connection and says nothing."""
    patch.setattr(secrets_manager, "PATIENCE", 0.2)
    patch.setattr(time, "sleep", lambda _: None)  # between attempts
    return MISSING


def _interrupt(_disk: Disk, patch: pytest.MonkeyPatch) -> str:
    def interrupted(*_: object, **_named: object) -> None:
        raise KeyboardInterrupt

    patch.setattr(BaseClient, "_make_api_call", interrupted)
    return MISSING


def read(disk: Disk) -> None:
    """What the unit does that reads."""
    fleet_sync.sync(argparse.Namespace(fetch=True), disk.gate)


def publish(disk: Disk) -> None:
    """What the unit does that writes."""
    publish_credentials.publish(argparse.Namespace(), disk.gate)


ASKED = {"FLEET_SECRET_ARN": read, "CREDENTIALS_SECRET_ARN": publish}
FAILURES = {
    "ResourceNotFoundException": _no_secret,
    "NoCredentialsError": _no_role,
    "ReadTimeoutError": _silence,
    "^$": _interrupt,  # a KeyboardInterrupt says nothing
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("said", FAILURES)
def test_a_failure_to_ask_secrets_manager_leaves_nothing_behind(
    booted: Disk, account: Account, monkeypatch: pytest.MonkeyPatch, said: str, name: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        if said == "ReadTimeoutError":
            account.endpoint = f"http://127.0.0.1:{mute.getsockname()[1]}"
        account.join(booted, FAILURES[said](booted, monkeypatch), name)
        before = state(booted), identity.read_credentials(booted.paths)
        with pytest.raises((ApplianceError, KeyboardInterrupt), match=said):
            ASKED[name](booted)
    assert (state(booted), identity.read_credentials(booted.paths)) == before
    assert not booted.paths.fleet_api_key_map.exists()
    assert not booted.paths.fleet_htpasswd.exists()


def test_a_secret_of_bytes_is_refused(disk: Disk, account: Account) -> None:
    made = account.aws.create_secret(Name=os.urandom(8).hex(), SecretBinary=b"{}")
    account.join(disk, made["ARN"])
    assert "bytes instead of text" in fetch(disk).error
