"""fastembed (ONNX Runtime) on the same weights, behind a small HTTP server.

In an environment of its own, which sees PyTorch and transformers of the one that runs the
benchmark: `python onnx_server.py export FOLDER OUT`, `python onnx_server.py serve OUT PORT`.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_NAME = "bench/exported"


def export(folder: Path, out: Path) -> None:
    """Write the model as ONNX with its tokenizer beside it."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    model = transformers.BertModel.from_pretrained(
        folder, add_pooling_layer=False, attn_implementation="eager"
    ).eval()
    out.mkdir(parents=True)
    shutil.copytree(folder, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        model,
        tuple(torch.ones(2, 8, dtype=torch.int64) for _ in names),
        str(out / "model.onnx"),
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in (*names, "last_hidden_state")},
        dynamo=False,
    )


def load(folder: Path) -> Any:  # noqa: ANN401 - fastembed's
    """The exported model with its own pooling, as fastembed runs bge-small (CLS)."""
    asked = json.loads((folder / "1_Pooling/config.json").read_text())
    kind = "CLS" if asked["pooling_mode_cls_token"] else "MEAN"
    fastembed: Any = importlib.import_module("fastembed")
    described: Any = importlib.import_module("fastembed.common.model_description")
    fastembed.TextEmbedding.add_custom_model(
        model=_NAME,
        pooling=described.PoolingType[kind],
        normalization=True,
        sources=described.ModelSource(hf=_NAME),
        dim=384,
        model_file="model.onnx",
    )
    return fastembed.TextEmbedding(_NAME, specific_model_path=str(folder))


def serve(folder: Path, port: int) -> None:
    model = load(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            vectors = model.embed(body["input"], batch_size=256)
            data = [{"index": i, "embedding": v.tolist()} for i, v in enumerate(vectors)]
            answer = json.dumps({"object": "list", "data": data}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nothing: a line a request would be part of what is measured."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # the standard library's 5 would refuse 16 clients at once

    Server(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "export":
        export(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        serve(Path(sys.argv[2]), int(sys.argv[3]))
