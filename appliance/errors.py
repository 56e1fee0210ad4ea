"""The one error type: a sentence that says what is wrong, and a hint that says what to do."""

from __future__ import annotations


class ApplianceError(Exception):
    """An expected failure, worded for the person who meets it.

    Library code raises it; only a command line prints it and exits.

    Args:
        message: one sentence, what went wrong. Never contains a secret.
        hint: one sentence, what the person can do about it.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} Hint: {self.hint}" if self.hint else self.message
