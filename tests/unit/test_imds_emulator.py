"""The metadata emulator over real sockets: every rule a client may rely on."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from machine import imds, metadata

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample ops"
DOCUMENT = {
    "instance-id": "i-0123456789abcdef0",
    "public-hostname": "ec2-203-0-113-25.compute.test",
    "public-keys": [KEY, "ssh-ed25519 AAAAOther"],
    "placement/availability-zone": "eu-west-1b",
    "tags": {"instance": {"Name": "web"}},
    "security-groups": ["one", "two"],
    "user-data": "#cloud-config\n",
}


class Client:
    """Talks to one emulator; each request is a connection of its own."""

    def __init__(self, port: int, file: Path) -> None:
        self.port = port
        self.file = file

    def say(self, document: Mapping[str, object]) -> None:
        self.file.write_text(json.dumps(document))

    def request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str, Mapping[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace"), dict(answer.headers)
        finally:
            connection.close()

    def token(self, ttl: str = "60") -> str:
        status, body, _ = self.request("PUT", imds.TOKEN_PATH, {imds.TTL_HEADER: ttl})
        assert status == 200
        return body

    def get(self, path: str) -> tuple[int, str]:
        status, body, _ = self.request("GET", path, {imds.TOKEN_HEADER: self.token()})
        return status, body


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    file = tmp_path / "metadata.json"
    file.write_text(json.dumps(DOCUMENT))
    with imds.Emulator(("127.0.0.1", 0), file) as emulator:
        thread = threading.Thread(target=emulator.serve_forever, args=(0.01,))
        thread.start()
        yield Client(emulator.server_port, file)
        emulator.shutdown()
        thread.join()


@pytest.mark.parametrize("ttl", ["1", "21600"])
def test_token_lives_as_long_as_asked(client: Client, ttl: str) -> None:
    status, body, headers = client.request("PUT", imds.TOKEN_PATH, {imds.TTL_HEADER: ttl})
    assert status == 200
    assert len(body) >= 40
    assert headers[imds.TTL_HEADER] == ttl


@pytest.mark.parametrize("ttl", ["0", "21601", "-1", "", "x", "1.5", "¹"])
def test_token_with_an_unlawful_lifetime_is_400(client: Client, ttl: str) -> None:
    headers = {imds.TTL_HEADER: ttl.encode().decode("latin-1")}
    assert client.request("PUT", imds.TOKEN_PATH, headers)[0] == 400


def test_token_without_a_lifetime_is_400(client: Client) -> None:
    assert client.request("PUT", imds.TOKEN_PATH)[0] == 400


def test_token_through_a_proxy_is_403(client: Client) -> None:
    headers = {imds.TTL_HEADER: "60", "X-Forwarded-For": "192.0.2.1"}
    assert client.request("PUT", imds.TOKEN_PATH, headers)[0] == 403


def test_put_elsewhere_is_405(client: Client) -> None:
    assert client.request("PUT", "/latest/meta-data/", {imds.TTL_HEADER: "60"})[0] == 405


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_other_methods_are_405(client: Client, method: str) -> None:
    headers = {imds.TOKEN_HEADER: client.token()}
    assert client.request(method, "/latest/meta-data/instance-id", headers)[0] == 405


@pytest.mark.parametrize("headers", [{}, {imds.TOKEN_HEADER: "guess"}, {imds.TOKEN_HEADER: ""}])
def test_reading_without_a_valid_token_is_401(client: Client, headers: Mapping[str, str]) -> None:
    assert client.request("GET", "/latest/meta-data/instance-id", headers)[0] == 401
    assert client.request("GET", "/latest/meta-data/absent", headers)[0] == 401


def test_token_expires(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {imds.TOKEN_HEADER: client.token("30")}
    assert client.request("GET", "/latest/meta-data/instance-id", headers)[0] == 200
    later = time.monotonic() + 31
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert client.request("GET", "/latest/meta-data/instance-id", headers)[0] == 401


def test_answer_says_how_long_the_token_lives_on(client: Client) -> None:
    headers = {imds.TOKEN_HEADER: client.token("60")}
    _, _, answered = client.request("GET", "/latest/meta-data/instance-id", headers)
    assert 0 < int(answered[imds.TTL_HEADER]) <= 60


def test_head_has_no_body(client: Client) -> None:
    headers = {imds.TOKEN_HEADER: client.token()}
    status, body, answered = client.request("HEAD", "/latest/meta-data/instance-id", headers)
    assert (status, body, answered["Content-Length"]) == (200, "", "19")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/latest/meta-data/instance-id", "i-0123456789abcdef0"),
        ("/2009-04-04/meta-data/instance-id", "i-0123456789abcdef0"),
        ("/2021-03-23/meta-data/instance-id", "i-0123456789abcdef0"),
        ("/latest/meta-data/instance-id/", "i-0123456789abcdef0"),
        ("/latest/meta-data/placement/availability-zone", "eu-west-1b"),
        ("/latest/meta-data/tags/instance/Name", "web"),
        ("/latest/meta-data/tags/", "instance/"),
        ("/latest/meta-data/security-groups", "one\ntwo"),
        ("/latest/meta-data/public-keys/", "0=ops\n1=launch"),
        ("/latest/meta-data/public-keys/0/", "openssh-key"),
        ("/latest/meta-data/public-keys/0/openssh-key", KEY),
        ("/latest/user-data", "#cloud-config\n"),
        ("/latest/", "dynamic/\nmeta-data/\nuser-data"),
        ("/latest/dynamic/", "instance-identity/"),
        ("/", "\n".join(metadata.VERSIONS)),
    ],
)
def test_paths_answer_as_on_ec2(client: Client, path: str, body: str) -> None:
    assert client.get(path) == (200, body)


def test_listing_marks_folders(client: Client) -> None:
    status, body = client.get("/latest/meta-data/")
    assert status == 200
    assert {"instance-id", "placement/", "public-keys/", "tags/"} <= set(body.splitlines())
    assert "user-data" not in body


@pytest.mark.parametrize(
    "path",
    [
        "/latest/meta-data/absent",
        "/latest/meta-data/instance-id/below",
        "/latest/meta-data/public-keys/2/openssh-key",
        "/1999-01-01/meta-data/instance-id",
        "/latest/meta-data/user-data",
        "/latest/meta-data/fault",
    ],
)
def test_what_is_absent_is_404(client: Client, path: str) -> None:
    assert client.get(path)[0] == 404


def test_identity_document_agrees_with_the_metadata(client: Client) -> None:
    _, body = client.get("/latest/dynamic/instance-identity/document")
    document = json.loads(body)
    assert document["instanceId"] == DOCUMENT["instance-id"]
    assert (document["region"], document["availabilityZone"]) == ("eu-west-1", "eu-west-1b")


def test_an_edit_of_the_file_shows_at_once(client: Client) -> None:
    client.say({"instance-id": "i-2"})
    assert client.get("/latest/meta-data/instance-id") == (200, "i-2")
    assert client.get("/latest/user-data")[0] == 404
    assert client.get("/latest/meta-data/public-keys/")[0] == 404


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_a_file_that_is_no_json_object_is_500(client: Client, text: str) -> None:
    client.file.write_text(text)
    assert client.request("PUT", imds.TOKEN_PATH, {imds.TTL_HEADER: "60"})[0] == 500


def test_file_wins_over_defaults_and_null_takes_away(tmp_path: Path) -> None:
    defaults, file = tmp_path / "defaults", tmp_path / "file"
    defaults.write_text(json.dumps(metadata.instance_defaults("10.213.1.2", "02:00:00:00:00:01")))
    file.write_text(json.dumps({"instance-type": "c5.large", "local-hostname": None}))
    with imds.Emulator(("127.0.0.1", 0), file, defaults) as emulator:
        document = emulator.document()
    assert metadata.lookup(document, "/latest/meta-data/instance-type") == "c5.large"
    assert metadata.lookup(document, "/latest/meta-data/local-hostname") is None
    assert metadata.lookup(document, "/latest/meta-data/local-ipv4") == "10.213.1.2"


@pytest.mark.parametrize(
    ("fault", "status"), [("unauthorized", 401), ("error", 500), ("oops", 500)]
)
def test_fault_answers_everything_with_a_status(client: Client, fault: str, status: int) -> None:
    token = client.token()
    client.say(DOCUMENT | {"fault": fault})
    assert client.request("PUT", imds.TOKEN_PATH, {imds.TTL_HEADER: "60"})[0] == status
    headers = {imds.TOKEN_HEADER: token}
    assert client.request("GET", "/latest/meta-data/instance-id", headers)[0] == status


def test_fault_garbage_is_200_and_no_text(client: Client) -> None:
    client.say(DOCUMENT | {"fault": "garbage"})
    status, body, _ = client.request("PUT", imds.TOKEN_PATH, {imds.TTL_HEADER: "60"})
    assert status == 200
    assert "\N{REPLACEMENT CHARACTER}" in body


def test_fault_absent_closes_unanswered(client: Client) -> None:
    client.say(DOCUMENT | {"fault": "absent"})
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        client.request("PUT", imds.TOKEN_PATH, {imds.TTL_HEADER: "60"})


def test_fault_hang_says_nothing_and_keeps_the_connection(client: Client) -> None:
    client.say(DOCUMENT | {"fault": "hang"})
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(b"GET /latest/meta-data/ HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
    client.say(DOCUMENT)
    assert client.get("/latest/meta-data/instance-id")[0] == 200


def test_fault_slow_answers_late(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    client.say(DOCUMENT | {"fault": "slow"})
    assert client.get("/latest/meta-data/instance-id")[0] == 200
    assert slept == [imds.SLOW_SECONDS] * 2


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (KEY, ["0=ops"]),
        ({"0": KEY}, ["0=ops"]),
        ({"deploy": KEY, "1": "ssh-ed25519 AAAA"}, ["0=deploy", "1=launch"]),
        ("", None),
        ([], None),
        (None, None),
    ],
)
def test_public_keys_may_be_text_list_or_mapping(given: object, names: list[str] | None) -> None:
    body = metadata.lookup({"public-keys": given}, "/latest/meta-data/public-keys")
    assert (None if body is None else body.splitlines()) == names
