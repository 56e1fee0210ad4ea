"""Refusals and failures in the one shape that OpenAI's SDKs read."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

RETRY_SECONDS = 10  # about what a restart with the bundled model takes


class ApiError(Exception):
    """An answer other than 2xx.

    Args:
        status: HTTP status.
        message: one sentence for the caller; never a secret, never a traceback.
        kind: OpenAI's ``type``.
        param: the field of the request at fault.
        code: a word a program can branch on.
        headers: further headers, such as Retry-After.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """``{"error": {"message", "type", "param", "code"}}``."""
        error = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }
        return orjson.dumps({"error": error})


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """400: the request cannot be meant."""
    return ApiError(400, message, param=param, code=code)


def overloaded(seconds: int) -> ApiError:
    """429: no room in the queue; ``seconds`` until there may be."""
    return ApiError(
        429,
        "The server has as much work waiting as it takes; try again later.",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(seconds)},
    )


def unavailable() -> ApiError:
    """503: the model failed or is being restarted; the same request may succeed soon."""
    return ApiError(
        503,
        "The model is not available at the moment; try again later.",
        kind="server_error",
        code="model_unavailable",
        headers={"Retry-After": str(RETRY_SECONDS)},
    )


def internal(message: str = "The server failed on this request; its log says why.") -> ApiError:
    """500: our fault, and trying again will not help."""
    return ApiError(500, message, kind="server_error", code="internal_error")
