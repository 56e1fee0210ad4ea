"""AWS Secrets Manager with the instance's role: one value read, one value written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, cast

from appliance.errors import ApplianceError
from appliance.fleet import region

PATIENCE = 10  # seconds for a connection and for an answer, five attempts


class _Client(Protocol):
    """The two of boto3's calls that are made."""

    def get_secret_value(self, *, SecretId: str) -> dict[str, object]: ...  # noqa: N803 - AWS's name
    def put_secret_value(self, *, SecretId: str, SecretString: str) -> object: ...  # noqa: N803


def read(arn: str, endpoint: str = "") -> str:
    """The current value of a secret.

    Raises:
        ApplianceError: AWS refuses, cannot be reached, or the secret holds no text.
    """
    with _explained("GetSecretValue", arn):
        answer = _client(arn, endpoint).get_secret_value(SecretId=arn)
    if "SecretString" not in answer:
        raise ApplianceError("The secret holds bytes instead of text.", "Store it as JSON.")
    return str(answer["SecretString"])


def write(arn: str, value: str, endpoint: str = "") -> None:
    """A new value of a secret.

    Raises:
        ApplianceError: AWS refuses, or cannot be reached.
    """
    with _explained("PutSecretValue", arn):
        _client(arn, endpoint).put_secret_value(SecretId=arn, SecretString=value)


def _client(arn: str, endpoint: str) -> _Client:
    import boto3  # noqa: PLC0415 - a quarter of a second that other commands do not pay
    from botocore.config import Config  # noqa: PLC0415

    config = Config(
        connect_timeout=PATIENCE,
        read_timeout=PATIENCE,
        retries={"mode": "standard", "total_max_attempts": 5},
    )
    made = boto3.client(
        "secretsmanager", region_name=region(arn), endpoint_url=endpoint or None, config=config
    )
    return cast("_Client", made)


@contextmanager
def _explained(action: str, arn: str) -> Iterator[None]:
    """Every failure as one sentence; an answer of AWS is told by its code, never by its text."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    hint = f"The instance's role must allow secretsmanager:{action} on it, over HTTPS."
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "an error")
        raise ApplianceError(f"Secrets Manager answered {code} for {arn}.", hint) from error
    except BotoCoreError as error:
        said = type(error).__name__
        raise ApplianceError(
            f"Secrets Manager cannot be asked for {arn} ({said}).", hint
        ) from error
