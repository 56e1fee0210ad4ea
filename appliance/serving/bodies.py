"""JSON request bodies: read within bounds, parsed, with lone surrogates mended."""

from __future__ import annotations

import json
from typing import Any

import orjson

from appliance.serving.errors import ApiError, invalid

# As nginx in front; here as well, because the server must not rely on who calls it.
MAX_BODY = 32 * 2**20


def check_type(content_type: str) -> None:
    """Raise 415 unless the body is said to be JSON, or nothing is said."""
    media = content_type.partition(";")[0].strip().lower()
    if media and media != "application/json" and not media.endswith("+json"):
        raise ApiError(
            415,
            f"The content type has to be application/json, not {media}.",
            code="unsupported_media_type",
        )


def too_large() -> ApiError:
    return ApiError(
        413, f"The body is larger than {MAX_BODY // 2**20} MiB.", code="request_too_large"
    )


def parse(body: bytes) -> dict[str, Any]:
    """The object in a JSON body.

    Fields that are ``null`` are left out: null means absent.

    Raises:
        ApiError: malformed, or no object.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        value = _parse_surrogates(body, error)
    if not isinstance(value, dict):
        raise invalid("The body has to be a JSON object.", code="invalid_json")
    return {name: field for name, field in value.items() if field is not None}


def _parse_surrogates(body: bytes, error: ValueError) -> Any:  # noqa: ANN401 - any JSON
    r"""A body that may only have failed for ``"\ud83d"`` without its other half.

    Python's parser lets such a half through; as UTF-16 it is then an error to be replaced.
    """
    malformed = invalid(f"The body is not valid JSON: {error}.", code="invalid_json")
    if b"\\ud" not in body.lower():
        raise malformed from error
    try:
        return _mend(json.loads(body.decode(), parse_constant=_refuse))
    except (ValueError, RecursionError):
        raise malformed from error


def _refuse(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are no JSON


def _mend(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mend(item) for item in value]
    if isinstance(value, dict):
        return {_mend(name): _mend(item) for name, item in value.items()}
    return value
