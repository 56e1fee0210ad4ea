#!/usr/bin/env python3
"""Embeds one text with the image's own model and libraries and compares it with what is known.

golden.py GOLDEN.json INFINITY.env
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from appliance import server_env


def configured(environment: Path) -> str:
    """The first model that the server would serve."""
    models = server_env.values(environment.read_text()).get("MODEL", "")
    if not models:
        raise SystemExit(f"{environment} names no model.")
    return models.split(";")[0].strip()


def embed(model: str, text: str) -> list[float]:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - only in the image

    loaded = SentenceTransformer(model, device="cpu", local_files_only=True)
    return [float(value) for value in loaded.encode([text], normalize_embeddings=True)[0]]


def main() -> int:
    golden, environment = map(Path, sys.argv[1:])
    model = configured(environment)
    known = json.loads(golden.read_text()).get(model)
    if known is None:
        print(f"golden: no vector is known for {model}", file=sys.stderr)
        return 1
    found = embed(model, known["text"])[: len(known["first"])]
    far = max(abs(a - b) for a, b in zip(found, known["first"], strict=True))
    print(f"golden: {model} differs by {far:.1e}, {known['tolerance']} is allowed")
    return 0 if far <= known["tolerance"] else 1


if __name__ == "__main__":
    sys.exit(main())
