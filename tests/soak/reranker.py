"""A reranker beside the embedder: the size of a common one, of random weights.

None can be had as a package, and weights do not change what the calls cost.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from appliance import carry
from machine.instance import Machine
from tests.bench.models import Model, lay_out
from tests.unit import encoder_support

# As cross-encoder/ms-marco-MiniLM-L-6-v2.
MODEL = Model("made/reranker", 384, 6, 512)
SIZES = {
    "hidden_size": MODEL.hidden,
    "num_hidden_layers": MODEL.layers,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "initializer_range": 0.02,
}
FILE = "/root/reranker.tar"


def serve_too(machine: Machine) -> None:
    """Carry it into the machine and have it served besides, by the operator's own commands."""
    machine.exec(f"cat >{FILE}", parcel())
    machine.exec(["infinity-model", "import", FILE])
    embedder = machine.credential("INFINITY_MODEL")
    machine.exec(["infinity-set-model", "--offline", embedder, MODEL.id], timeout=300)


def parcel() -> bytes:
    """The model as `infinity-model import` takes it."""
    with tempfile.TemporaryDirectory() as folder:
        home, out = Path(folder), io.BytesIO()
        kind = "BertForSequenceClassification"
        encoder_support.save_bert(lay_out(home, MODEL), kind, num_labels=1, **SIZES)
        carry.write(carry.find(home / "hub", MODEL.id), out)
        return out.getvalue()
