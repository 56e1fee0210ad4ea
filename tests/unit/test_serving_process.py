"""The process: its name, its socket, its silence, its end, and what cannot start."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from encoder_support import pool, save_bert
from serving_model import MINILM, REPO, Server, lay_out, models, single

from appliance.serving import process

TCP_LISTEN = "0A"


def test_it_is_named_as_the_guide_shows() -> None:
    assert Path(f"/proc/{single().process.pid}/comm").read_text() == "infinity_emb\n"


def test_it_listens_on_loopback_alone_and_calls_nobody() -> None:
    server = single()
    proc = Path(f"/proc/{server.process.pid}")
    inodes = {
        os.readlink(fd)[8:-1] for fd in (proc / "fd").iterdir() if "socket:" in os.readlink(fd)
    }
    rows = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in (proc / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                rows.append((table, fields[1], fields[3]))
    listening = [(table, local) for table, local, state in rows if state == TCP_LISTEN]
    assert listening == [("tcp", f"0100007F:{server.port:04X}")]
    assert {local.split(":")[0] for _, local, _ in rows} == {"0100007F"}


def test_it_is_ready_only_after_an_embedding_and_feeds_the_watchdog() -> None:
    server = single()
    assert "READY=1" in server.notified
    assert "WATCHDOG=1" in server.notified
    assert server.notified.index("STATUS=Loading the model.") < server.notified.index("READY=1")
    assert server.client.get("/readyz").json() == {"status": "ready"}
    assert server.client.get("/v1/readyz").status_code == 200


def test_metrics_tell_routes_keys_tokens_and_queue() -> None:
    client = single().client
    client.post("/embeddings", json={"input": "x"}, headers={"X-Infinity-Key-Name": "team-a"})
    page = client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    for line in (
        'infinity_requests_total{key="team-a",route="/embeddings",status="200"}',
        'infinity_request_seconds_bucket{le="0.05",route="/embeddings"}',
        f'infinity_tokens_total{{model="{MINILM}"}}',
        f'infinity_truncated_inputs_total{{model="{MINILM}"}}',
        f'infinity_batch_tokens_bucket{{le="8.0",model="{MINILM}"}}',
        f'infinity_model_load_seconds{{model="{MINILM}"}}',
        "infinity_queue_tokens 0.0",
        "infinity_ready 1.0",
    ):
        assert line in page.text


def start(home: Path, program: str = "server", **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"appliance.serving.{program}"],
        env={**os.environ, "PYTHONPATH": str(REPO), "HF_HOME": str(home), **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_missing_model_is_one_sentence_and_the_status_that_stays_failed(tmp_path: Path) -> None:
    done = start(tmp_path, MODEL="BAAI/not-there")
    assert done.returncode == os.EX_CONFIG
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("The model BAAI/not-there is not in the cache")
    assert "Hint:" in said
    assert "Traceback" not in done.stderr


def test_a_model_that_cannot_be_loaded_is_one_sentence(tmp_path: Path) -> None:
    snapshot = lay_out(tmp_path, "made/broken")
    (snapshot / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    (snapshot / "model.safetensors").write_bytes(b"no tensors")
    done = start(tmp_path, MODEL="made/broken")
    assert done.returncode == os.EX_CONFIG
    assert "The model made/broken cannot be loaded: " in done.stderr
    assert "Traceback" not in done.stderr


def evil_configuration(snapshot: Path) -> None:
    automatic = {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"}
    config = {"model_type": "evil", "architectures": ["EvilModel"], "auto_map": automatic}
    (snapshot / "config.json").write_text(json.dumps(config))
    (snapshot / "model.safetensors").touch()


def evil_module(snapshot: Path) -> None:
    save_bert(snapshot)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "evil.Evil"}]
    (snapshot / "modules.json").write_text(json.dumps(modules))


def evil_activation_of_a_module(snapshot: Path) -> None:
    pool(save_bert(snapshot), pooling_mode_cls_token=True)
    modules = json.loads((snapshot / "modules.json").read_text())
    dense = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    (snapshot / "modules.json").write_text(json.dumps([*modules, dense]))
    (snapshot / "3_Dense").mkdir()
    config = {"in_features": 64, "out_features": 8, "activation_function": "evil.Evil"}
    (snapshot / "3_Dense/config.json").write_text(json.dumps(config))


def evil_activation_of_a_reranker(snapshot: Path) -> None:
    save_bert(snapshot, "BertForSequenceClassification", num_labels=1)
    config = json.loads((snapshot / "config.json").read_text())
    config["sbert_ce_default_activation_function"] = "evil.Evil"
    (snapshot / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    "prepare",
    [
        evil_configuration,
        evil_module,
        evil_activation_of_a_module,
        evil_activation_of_a_reranker,
    ],
)
def test_code_of_a_models_choice_does_not_run(
    tmp_path: Path, prepare: Callable[[Path], None]
) -> None:
    snapshot = lay_out(tmp_path / "cache", "made/evil")
    prepare(snapshot)
    # In the model's folder, and as a module that is installed: either may not be imported.
    installed, mark = tmp_path / "installed", tmp_path / "ran"
    installed.mkdir()
    for folder in (snapshot, installed):
        (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass Evil: pass\n")
    done = start(tmp_path / "cache", MODEL="made/evil", PYTHONPATH=f"{REPO}:{installed}")
    assert not mark.exists()
    assert done.returncode == os.EX_CONFIG
    assert "let its code run" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_ends_at_once_and_well_when_told_to() -> None:
    with Server() as server:
        assert server.client.post("/embeddings", json={"input": "x"}).status_code == 200
        server.client.close()
        assert server.stop() in (0, -signal.SIGTERM)  # either is a clean end to systemd


def test_fetch_does_nothing_quickly_when_the_model_is_there() -> None:
    code = (
        "import sys; from appliance.serving import fetch; fetch.main(); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'requests', 'huggingface_hub', 'ssl')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(REPO), "HF_HOME": str(models()), "MODEL": f"{MINILM};made/reranker"},
        check=False,
        timeout=60,
    )
    assert done.returncode == 0


@pytest.mark.parametrize("model", ["BAAI/bge-m3", "BAAI/bge-m3@v1"])
def test_fetch_without_a_network_is_one_sentence_with_a_hint(tmp_path: Path, model: str) -> None:
    done = start(tmp_path, "fetch", MODEL=model, HF_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert "BAAI/bge-m3" in said
    assert "Hint: " in said
    assert "Traceback" not in done.stderr


def test_the_dashboard_asks_only_for_metrics_that_exist() -> None:
    single().client.post("/embeddings", json={"input": "x"})
    page = single().client.get("/metrics").text
    dashboard = json.loads((REPO / "docs/grafana-dashboard.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"(?:infinity|process)_\w+", target["expr"])
    }
    assert len(asked) > 10
    assert not [name for name in asked if f"\n{name}{{" not in page and f"\n{name} " not in page]


def test_openmp_threads_of_loading_end_with_it() -> None:
    def compute() -> int:
        torch.ones(2**20).exp()
        return own_threads()

    usual = torch.get_num_threads()
    torch.set_num_threads(3)  # starts threads of its own, which stay
    try:
        before = own_threads()
        assert process.in_passing_thread(compute) >= before + 3
    finally:
        torch.set_num_threads(usual)
    deadline = time.monotonic() + 30
    while own_threads() > before:
        assert time.monotonic() < deadline, "they are still there"
        time.sleep(0.01)


def own_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))
