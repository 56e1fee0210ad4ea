"""The texts of a request: strings, token ids, documents; each refusal names the one at fault."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from appliance.serving import cl100k
from appliance.serving.errors import ApiError, invalid

MAX_INPUTS = 2048
MAX_CHARACTERS = 8192 * 15  # 122,880: Infinity's own cap
# A text has one of these. Languages differ in what \s is (Python's has no U+FEFF, JavaScript's
# no U+0085), so the class names the rest, and the OpenAPI document means the same everywhere.
VISIBLE = r"[^\s\u001c-\u001f\u0085\ufeff]"
_visible = re.compile(VISIBLE).search


def texts(value: Any, param: str) -> list[str]:  # noqa: ANN401 - from JSON
    """Every text of OpenAI's ``input``.

    Args:
        value: a string, strings, token ids of cl100k_base, or lists of them.
        param: the field's name, for the error.

    Returns:
        1 to MAX_INPUTS texts, none of them empty, and blank only when given as ids.

    Raises:
        ApiError: 400, anything else.
    """
    if isinstance(value, str):
        return [_text(value, param, None)]
    if not isinstance(value, list):
        raise invalid(
            f"'{param}' has to be a string, a list of strings, or token ids.",
            param,
            "invalid_type",
        )
    if not value:
        raise invalid(f"'{param}' is an empty list.", param, "empty_input")
    if _is_id(value[0]):
        return [_decoded(value, param, None)]
    check_count(value, param)
    return [
        _decoded(item, param, index) if isinstance(item, list) else _text(item, param, index)
        for index, item in enumerate(value)
    ]


def documents(value: Any, param: str) -> list[str]:  # noqa: ANN401 - from JSON
    """The documents to rerank: strings, or objects with a ``text`` (Cohere's, Jina's)."""
    if not isinstance(value, list):
        raise invalid(f"'{param}' has to be a list of documents.", param, "invalid_type")
    if not value:
        raise invalid(f"'{param}' is an empty list.", param, "empty_input")
    check_count(value, param)
    return [
        _text(item.get("text") if isinstance(item, dict) else item, param, index)
        for index, item in enumerate(value)
    ]


def text(value: Any, param: str) -> str:  # noqa: ANN401 - from JSON
    """One text, such as a query."""
    return _text(value, param, None)


def check_count(value: Sequence[Any], param: str) -> None:
    if len(value) > MAX_INPUTS:
        raise invalid(
            f"'{param}' has {len(value)} entries; {MAX_INPUTS} is the most in one request.",
            param,
            "too_many_inputs",
        )


def _name(param: str, index: int | None) -> str:
    return f"'{param}'" if index is None else f"'{param}[{index}]'"


def _text(value: Any, param: str, index: int | None) -> str:  # noqa: ANN401 - from JSON
    if not isinstance(value, str):
        raise invalid(f"{_name(param, index)} has to be a string.", param, "invalid_type")
    if not _visible(value):
        raise invalid(f"{_name(param, index)} is empty.", param, "empty_input")
    return _bounded(value, param, index)


def _bounded(value: str, param: str, index: int | None) -> str:
    if len(value) > MAX_CHARACTERS:
        raise invalid(
            f"{_name(param, index)} has {len(value)} characters; {MAX_CHARACTERS} is the most.",
            param,
            "string_above_max_length",
        )
    return value


def _is_id(value: Any) -> bool:  # noqa: ANN401 - from JSON
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _decoded(value: Sequence[Any], param: str, index: int | None) -> str:
    """The text of ids; white space as well, since a client that sends ids cannot see it."""
    if not value:
        raise invalid(f"{_name(param, index)} is an empty list.", param, "empty_input")
    if len(value) > MAX_CHARACTERS:  # an id is at least a byte, so this is not a loss
        raise invalid(f"{_name(param, index)} has too many ids.", param, "string_above_max_length")
    for item in value:
        if not _is_id(item) or (isinstance(item, float) and not item.is_integer()):
            raise _no_id(item, param, index)
    try:
        return _bounded(cl100k.table().decode([int(item) for item in value]), param, index)
    except LookupError as error:
        raise _no_id(error.args[0], param, index) from error


def _no_id(item: Any, param: str, index: int | None) -> ApiError:  # noqa: ANN401 - from JSON
    shown = repr(item)[:40]
    return invalid(
        f"{_name(param, index)} holds {shown}, which is no token id of cl100k_base.",
        param,
        "invalid_token_id",
    )
