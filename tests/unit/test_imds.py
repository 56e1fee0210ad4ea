"""The metadata client against the emulator of the real protocol, and against its faults."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from appliance import facts
from appliance.imds import Imds, MetadataError
from appliance.paths import Paths
from machine.imds import Emulator

INSTANCE = {
    "instance-id": "i-0123456789abcdef0",
    "public-hostname": "ec2-203-0-113-25.compute.test",
    "public-ipv4": "203.0.113.25",
    "local-hostname": "ip-10-0-0-5.ec2.internal second.example",
    "local-ipv4": "10.0.0.5",
}
Serve = Callable[..., Imds]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts the emulator with some keys changed (None takes one away); returns a client."""
    running = []

    def start(deadline: float = 20, **changes: object) -> Imds:
        said = INSTANCE | {key.replace("_", "-"): value for key, value in changes.items()}
        file = tmp_path / "metadata.json"
        file.write_text(json.dumps({key: value for key, value in said.items() if value}))
        emulator = Emulator(("127.0.0.1", 0), file)
        running.append(emulator)
        threading.Thread(target=emulator.serve_forever, args=(0.02,), daemon=True).start()
        return Imds(f"http://127.0.0.1:{emulator.server_address[1]}", deadline)

    yield start
    for emulator in running:
        emulator.shutdown()
        emulator.server_close()


def test_values_come_with_a_token(serve: Serve) -> None:
    assert serve().get("meta-data/instance-id") == INSTANCE["instance-id"]


def test_what_is_not_there_is_none(serve: Serve) -> None:
    assert serve().get("meta-data/no-such-key") is None


@pytest.mark.parametrize("fault", ["unauthorized", "error", "garbage", "hang", "absent"])
def test_a_broken_service_is_one_sentence_within_the_deadline(serve: Serve, fault: str) -> None:
    with pytest.raises(MetadataError, match=r"no usable answer within 0\.5 s") as caught:
        serve(deadline=0.5, fault=fault).get("meta-data/instance-id")
    assert caught.value.hint


def test_nobody_there_is_one_sentence() -> None:
    with pytest.raises(MetadataError, match="Connection refused"):
        Imds("http://127.0.0.1:9", 0.3).get("meta-data/instance-id")


@contextmanager
def answering(answer: bytes, pause: float = 0) -> Iterator[str]:
    """A server that says the same to everyone, with a pause (seconds) after each byte."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):  # the listener is closed, or the client has gone
                while True:
                    client = listener.accept()[0]
                    with client, suppress(OSError):
                        client.recv(4096)
                        for byte in answer if pause else ():
                            client.sendall(bytes([byte]))
                            time.sleep(pause)
                        client.sendall(b"" if pause else answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


OK = b"HTTP/1.1 200 OK\r\n"


def test_bytes_that_trickle_do_not_outlast_the_deadline() -> None:
    trickle = OK + b"X-Padding: " + b"x" * 40
    began = time.monotonic()
    with (
        answering(trickle, pause=0.05) as url,
        pytest.raises(MetadataError, match="timed out"),
    ):
        Imds(url, 0.4).get("meta-data/instance-id")
    assert time.monotonic() - began < len(trickle) * 0.05


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (OK + b"Content-Length: 20\r\n\r\nec2-203-0", "cut short"),
        (OK + b"\r\n" + b"x" * 70_000, "does not end"),
        (OK + b"Content-Length: 70000\r\n\r\n" + b"x" * 70_000, "does not end"),
        (OK + b"\r\n" + b"\xff\xfe", "no text"),
        (OK + b"\r\n" + b"x" * 2000, "garbage instead of a token"),
        (OK + b"\r\n", "garbage instead of a token"),
        (b"hello\r\n\r\n", "hello"),
    ],
)
def test_an_answer_that_is_none_is_not_used(answer: bytes, said: str) -> None:
    with answering(answer) as url, pytest.raises(MetadataError, match=said):
        Imds(url, 0.3).get("meta-data/instance-id")


def test_a_slow_service_is_waited_for(serve: Serve) -> None:
    assert serve(fault="slow").get("meta-data/instance-id") == INSTANCE["instance-id"]


def test_a_token_that_the_service_forgot_is_asked_for_again(serve: Serve) -> None:
    client = serve()
    client._token = "forgotten"
    assert client.get("meta-data/instance-id") == INSTANCE["instance-id"]


def test_the_best_name_is_public_before_private_and_a_name_before_an_address(
    serve: Serve, tmp_path: Path
) -> None:
    absent: dict[str, object] = {}
    for key, best in (
        ("public-hostname", "ec2-203-0-113-25.compute.test"),
        ("public-ipv4", "203.0.113.25"),
        ("local-hostname", "ip-10-0-0-5.ec2.internal"),
        ("local-ipv4", "10.0.0.5"),
    ):
        assert facts.gather(serve(**absent), Paths(tmp_path)).best_name == best
        absent[key] = None


@pytest.mark.parametrize(
    ("changes", "instance_id"),
    [
        ({"instance-id": "<html>login</html>"}, None),
        ({"public-hostname": "a.test; }"}, INSTANCE["instance-id"]),
        ({"public-ipv4": "203.0.113.256"}, INSTANCE["instance-id"]),
        ({"local-hostname": "bad_name.internal"}, INSTANCE["instance-id"]),
    ],
)
def test_garbage_in_one_value_makes_every_name_unknown(
    serve: Serve, tmp_path: Path, changes: dict[str, object], instance_id: str | None
) -> None:
    found = facts.gather(serve(**changes), Paths(tmp_path))
    assert found.best_name is None
    assert found.instance_id == instance_id, "a copy would pass for its original"
    assert found.problem is not None
    assert "garbage" in found.problem.message
