"""Who gets in: the exact key, the right login, and nobody else."""

from __future__ import annotations

import pytest
from gate_harness import (
    KEY,
    KEY_OFF,
    NAMED_KEY,
    PASSWORD,
    USER,
    Gate,
    basic,
    bearer,
    write_login,
)
from gate_stub import Stub

GATED = (
    "/",
    "/embeddings",
    "/rerank",
    "/classify",
    "/models",
    "/metrics",
    "/docs",
    "/openapi.json",
    "/v1/embeddings",
    "/v1/models",
    "/v1/health",
    "/health/",
    "/healthz/",
    "/readyz/x",
    "/HEALTH",
    "/health;x",
)


@pytest.mark.parametrize("path", GATED)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_route_without_a_credential_is_401_and_the_server_is_not_asked(
    gate: Gate, stub: Stub, path: str, method: str
) -> None:
    answer = gate.get(path, method=method)
    assert answer.status == 401
    assert answer.header("WWW-Authenticate").startswith("Basic ")
    assert stub.seen == []


@pytest.mark.parametrize("path", ["/models", "/v1/models", "/v1/embeddings?x=1"])
def test_the_key_opens_bare_and_v1_paths_unchanged(gate: Gate, stub: Stub, path: str) -> None:
    assert gate.get(path, bearer()).status == 200
    assert [seen.path for seen in stub.seen] == [path]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_may_be_written_in_any_case(gate: Gate, scheme: str) -> None:
    assert gate.get("/models", ("Authorization", f"{scheme} {KEY}")).status == 200


FLIPPED = KEY.replace("b", "B", 1)


@pytest.mark.parametrize(
    "value",
    [
        f"Bearer {FLIPPED}",
        f"Bearer {KEY.upper()}",
        f"Bearer {KEY.replace('inf', 'Inf')}",
        f"Bearer {KEY}X",
        f"Bearer {KEY}0",
        f"Bearer {KEY[:-1]}",
        f"Bearer {KEY[:-1]}0",
        f"Bearer {KEY_OFF}",
        f"Bearer  {KEY}",
        f"Bearer\t{KEY}",
        f"Bearer {KEY} {KEY}",
        f"Bearer {KEY},",
        f"Bearer {KEY}, Bearer {KEY}",
        f'Bearer "{KEY}"',
        f"Bearer{KEY}",
        f"Token {KEY}",
        f"{KEY}",
        "Bearer",
        "Bearer 1",
        "Bearer inf-",
        "1",
        "~^Bearer",
    ],
)
def test_a_key_that_is_not_exactly_the_key_is_401(gate: Gate, stub: Stub, value: str) -> None:
    assert gate.get("/models", ("Authorization", value)).status == 401
    assert stub.seen == []


@pytest.mark.parametrize("carrier", ["X-API-Key", "Api-Key", "Proxy-Authorization", "Cookie"])
def test_the_key_in_another_header_does_not_open(gate: Gate, carrier: str) -> None:
    assert gate.get("/models", (carrier, f"Bearer {KEY}")).status == 401


def test_the_key_in_the_query_does_not_open(gate: Gate) -> None:
    assert gate.get(f"/models?api_key={KEY}&authorization=Bearer%20{KEY}").status == 401


def test_the_login_opens(gate: Gate) -> None:
    assert gate.get("/models", basic()).status == 200


@pytest.mark.parametrize(
    "header",
    [
        basic(password=PASSWORD + "X"),
        basic(password=PASSWORD[:-1]),
        basic(password=PASSWORD.swapcase()),
        basic(password=""),
        basic(user="root"),
        basic(user="Admin"),
        basic(user=""),
        basic(user=KEY, password=""),
        basic(user=USER, password=KEY),
        ("Authorization", "Basic"),
        ("Authorization", "Basic !!!"),
        ("Authorization", "Basic YWRtaW4="),
        ("Authorization", f"Basic {USER}:{PASSWORD}"),
        ("Authorization", "Digest username=admin"),
    ],
)
def test_a_wrong_login_is_401(gate: Gate, stub: Stub, header: tuple[str, str]) -> None:
    assert gate.get("/models", header).status == 401
    assert stub.seen == []


def test_of_two_authorization_headers_a_later_good_one_does_not_open(
    gate: Gate, stub: Stub
) -> None:
    # nginx 1.22 takes the first, 1.23 and later refuse the request.
    assert gate.get("/models", bearer("inf-0"), bearer()).status in {400, 401}
    assert stub.seen == []
    gate.get("/models", bearer(), bearer("inf-0"))
    assert all(seen.values("Authorization") == [] for seen in stub.seen)


def test_a_key_written_by_hand_works_after_a_reload_and_the_old_one_stops(own_gate: Gate) -> None:
    new = "inf-" + "f" * 48
    (own_gate.etc / "infinity-apikey.map").write_text(f'"Bearer {new}" 1;\n')
    own_gate.reload()
    assert own_gate.get("/models", bearer(new)).status == 200
    assert own_gate.get("/models", bearer()).status == 401
    assert own_gate.get("/models", bearer(NAMED_KEY)).status == 401


def test_a_password_that_htpasswd_writes_works_at_once(own_gate: Gate) -> None:
    write_login(own_gate.etc, USER, "another password", cost=4)
    assert own_gate.get("/models", basic(password="another password")).status == 200
    assert own_gate.get("/models", basic()).status == 401


def test_without_keys_and_logins_everything_is_closed(own_gate: Gate) -> None:
    (own_gate.etc / "infinity-apikey.map").write_text("")
    (own_gate.etc / ".infinity.htpasswd").write_text("")
    own_gate.reload()
    assert own_gate.get("/models", bearer()).status == 401
    assert own_gate.get("/models", basic()).status == 401
    assert own_gate.get("/models").status == 401
    assert own_gate.get("/models", ("Authorization", "Bearer ")).status == 401
