"""The same gate over HTTP/2, as browsers and curl speak it."""

from __future__ import annotations

import pytest
from gate_harness import HOST, Gate, basic, bearer
from gate_stub import Stub
from lint_tools import tool

from appliance.run import Completed, run


def curl(gate: Gate, path: str, *options: str, host: str = HOST) -> Completed:
    """Prints the HTTP version and the status. Made-up credentials may stand in argv."""
    target = f"https://{host}:{gate.https_port}{path}"
    resolve = f"{host}:{gate.https_port}:127.0.0.1"
    shown = "%{http_version} %{http_code}"
    fixed = ["--http2", "-s", "-o", "/dev/null", "-w", shown, "--resolve", resolve]
    trust = ["--cacert", str(gate.certificate)] if host == HOST else ["--insecure"]
    program = tool("curl", "apt-get install curl")
    return run([program, *fixed, *trust, *options, target], check=False)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (bearer(), 200),
        (basic(), 200),
        (bearer(bearer()[1].upper()), 401),
        (basic(password="x"), 401),
        (("X-Nothing", "1"), 401),
    ],
)
def test_credentials_count_as_over_http_1(gate: Gate, header: tuple[str, str], status: int) -> None:
    assert curl(gate, "/models", "-H", ": ".join(header)).stdout == f"2 {status}"


def test_a_cross_origin_post_is_403(gate: Gate, stub: Stub) -> None:
    sent = ("-H", ": ".join(bearer()), "-H", "Origin: https://evil.example", "-d", "{}")
    assert curl(gate, "/embeddings", *sent).stdout == "2 403"
    assert stub.seen == []


def test_an_unknown_authority_gets_no_answer_but_the_probes(gate: Gate, stub: Stub) -> None:
    refused = curl(gate, "/health", host="evil.localhost")
    assert refused.returncode != 0
    assert refused.stdout.endswith(" 000")
    assert stub.seen == []
    assert curl(gate, "/readyz", host="evil.localhost").stdout == "2 200"
