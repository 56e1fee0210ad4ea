"""AWS Secrets Manager for local machines: moto's server at an address that they all reach."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from appliance.errors import ApplianceError
from appliance.run import run

# What the metadata service says of the instance's role; moto asks nobody who they are.
ROLE = {
    "Code": "Success",
    "Type": "AWS-HMAC",
    "AccessKeyId": "ASIAIOSFODNN7EXAMPLE",
    "SecretAccessKey": "not-a-secret",
    "Token": "not-a-secret",
    "LastUpdated": "2026-01-01T00:00:00Z",
    "Expiration": "2096-01-01T00:00:00Z",
}
ROLE_METADATA = {"iam/security-credentials/fleet": json.dumps(ROLE)}
ADDRESSES = "192.0.2"  # RFC 5737: nobody's


@dataclass(frozen=True)
class Secret:
    """One secret, and where it is asked for."""

    endpoint: str
    arn: str

    @property
    def address(self) -> str:
        return self.endpoint.removeprefix("http://").partition(":")[0]

    def change(self, value: object) -> None:
        client(self.endpoint).put_secret_value(SecretId=self.arn, SecretString=json.dumps(value))


@contextmanager
def secrets_manager(address: str, port: int = 0) -> Iterator[str]:
    """Serve at the address while the body runs; gives the endpoint. Secrets outlive it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line a request
    server = ThreadedMotoServer(address, port, verbose=False)
    server.start()
    try:
        yield f"http://{address}:{server.get_host_and_port()[1]}"
    finally:
        server.stop()


def client(endpoint: str) -> Any:  # noqa: ANN401 - boto3 makes its clients at run time
    return boto3.Session().client(
        "secretsmanager",
        region_name="us-east-1",
        endpoint_url=endpoint,
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )


@contextmanager
def shared(value: object) -> Iterator[Secret]:
    """A new secret, while the body runs, at an address of this computer's own."""
    with _address() as address, secrets_manager(address) as endpoint:
        made = client(endpoint).create_secret(
            Name=f"fleet-{secrets.token_hex(4)}", SecretString=json.dumps(value)
        )
        yield Secret(endpoint, made["ARN"])


@contextmanager
def _address() -> Iterator[str]:
    """The loopback interface's for so long; the kernel gives each to one that asks."""
    for number in range(1, 255):
        address = f"{ADDRESSES}.{number}"
        if run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=False).returncode == 0:
            break
    else:
        raise ApplianceError(f"No address of {ADDRESSES}.0/24 is free.", "See `ip addr show lo`.")
    try:
        yield address
    finally:
        run(["ip", "addr", "del", f"{address}/32", "dev", "lo"])
