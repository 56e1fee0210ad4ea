"""The parts of the server that need no model: settings, bounds, judgement of a stuck pass."""

from __future__ import annotations

import json
import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from serving_model import COMMIT, lay_out

from appliance.errors import ApplianceError
from appliance.serving import cl100k, config, fetch, inputs, process, weights
from appliance.serving.admission import PER_REQUEST, Admission
from appliance.serving.config import ModelSource
from appliance.serving.errors import ApiError
from appliance.serving.loading import matryoshka
from appliance.serving.metrics import MAX_KEYS, Metrics
from appliance.serving.notify import notify
from appliance.serving.passes import FIRST_PATIENCE, PATIENCE, Passes
from appliance.serving.watchdog import stuck


def settings(**given: str) -> config.ServingConfig:
    return config.from_environment({"HF_HOME": "/nowhere", **given})


def test_models_revisions_names_and_aliases_are_read_in_order() -> None:
    found = settings(
        MODEL="BAAI/bge-m3; BAAI/bge-reranker-base@v1.0 ;",
        INFINITY_SERVED_MODEL_NAME="m3;ranker",
        MODEL_ALIASES="text-embedding-3-small; rank=ranker",
    )
    assert found.models == (
        ModelSource("BAAI/bge-m3", "", "m3"),
        ModelSource("BAAI/bge-reranker-base", "v1.0", "ranker"),
    )
    assert found.aliases == {"text-embedding-3-small": "m3", "rank": "ranker"}
    assert (found.port, found.dtype, found.hub) == (7997, "auto", Path("/nowhere/hub"))


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"MODEL": ""}, "No model"),
        ({"MODEL": "../../etc/passwd"}, "not a model id"),
        ({"MODEL": "a/b/c"}, "not a model id"),
        ({"MODEL": "a/b@"}, "not a model id"),
        ({"MODEL": "a/b;c/d", "INFINITY_SERVED_MODEL_NAME": "x"}, "2 models"),
        ({"MODEL": "a/b;a/b"}, "same served name"),
        ({"MODEL": "a/b", "MODEL_ALIASES": "x=c/d"}, "MODEL_ALIASES"),
        ({"MODEL": "a/b", "DTYPE": "int7"}, "DTYPE=int7"),
        ({"MODEL": "a/b", "INFINITY_PORT": "http"}, "no TCP port"),
        ({"MODEL": "a/b", "INFINITY_PORT": "70000"}, "no TCP port"),
        ({"MODEL": "a/b", "HF_HOME": ""}, "HF_HOME"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_one_sentence_with_a_hint(
    given: dict[str, str], word: str
) -> None:
    with pytest.raises(ApplianceError, match=word) as raised:
        settings(**given)
    assert raised.value.hint


def test_a_snapshot_is_found_by_branch_and_by_commit(tmp_path: Path) -> None:
    snapshot = lay_out(tmp_path, "a/b")
    hub = tmp_path / "hub"
    assert ModelSource("a/b", "", "b").snapshot(hub) is None
    (snapshot / "config.json").write_text("{}")
    assert ModelSource("a/b", "", "b").snapshot(hub) == snapshot
    assert ModelSource("a/b", COMMIT, "b").snapshot(hub) == snapshot
    assert ModelSource("a/b", "v2", "b").snapshot(hub) is None
    serving = settings(MODEL="a/b", HF_HOME=str(tmp_path))
    assert not fetch.complete(ModelSource("a/b", "", "b"), serving)
    (snapshot / "model.safetensors").symlink_to(tmp_path / "not-there")
    assert not fetch.complete(ModelSource("a/b", "", "b"), serving)
    (tmp_path / "not-there").write_bytes(b"weights")
    assert fetch.complete(ModelSource("a/b", "", "b"), serving)


def test_matryoshka_sizes_are_those_the_model_declares(tmp_path: Path) -> None:
    assert matryoshka(tmp_path) == ()
    (tmp_path / "config.json").write_text(json.dumps({"matryoshka_dimensions": [256, 64, 64]}))
    assert matryoshka(tmp_path) == (64, 256)


def test_work_is_bounded_by_tokens_and_one_large_request_is_let_in() -> None:
    admission = Admission(lambda: 100.0, tokens=1000, size=100)
    with admission.work(5000), pytest.raises(ApiError) as raised, admission.work(1):
        pass
    assert raised.value.status == 429
    assert raised.value.headers["Retry-After"] == "13"  # a quarter of 5,064 tokens
    with admission.work(900 - PER_REQUEST), admission.work(100 - PER_REQUEST):
        assert admission.tokens == 1000
    assert (admission.tokens, admission.requests) == (0, 0)


def test_small_requests_find_room_beside_a_bulk_load_and_are_bounded_too() -> None:
    admission = Admission(lambda: 100.0, tokens=16_000)  # 2,000 are kept, for 125 each
    small = 125 - PER_REQUEST
    with ExitStack() as waiting:
        waiting.enter_context(admission.work(100_000))
        for _ in range(16):
            waiting.enter_context(admission.work(small))
        for more in (small, 1000):
            with pytest.raises(ApiError), admission.work(more):
                pass
    with ExitStack() as waiting:
        for _ in range(128):  # without a bulk load they take the whole room, and no more
            waiting.enter_context(admission.work(small))
        with pytest.raises(ApiError), admission.work(small):
            pass
    assert (admission.tokens, admission.requests) == (0, 0)


def test_bodies_are_bounded_by_bytes() -> None:
    admission = Admission(lambda: 0.0, size=100)
    with admission.body() as first:
        first(60)
        with admission.body() as second:
            second(30)
            with pytest.raises(ApiError):
                second(30)
        assert admission.bytes == 60
    assert admission.bytes == 0


def test_a_pass_is_overdue_only_beyond_what_its_tokens_explain() -> None:
    now = 0.0
    passes = Passes(lambda: now)
    with passes.one(100):
        now = 1.0  # 100 tokens a second
    assert passes.rate == pytest.approx(100)
    with passes.one(10):
        assert not passes.overdue(now + PATIENCE - 1)
        assert passes.overdue(now + PATIENCE + 1)
    with passes.one(8192):
        assert not passes.overdue(now + 800)
        assert passes.overdue(now + 820)
        assert not stuck(passes, sent=now, now=now + 800)


def test_the_first_pass_of_all_may_take_longer() -> None:
    passes = Passes(lambda: 0.0)
    with passes.one(16):
        assert not passes.overdue(FIRST_PATIENCE - 1)
        assert passes.overdue(FIRST_PATIENCE + 1)


def test_a_canary_that_no_pass_takes_up_is_stuck() -> None:
    passes = Passes(lambda: 0.0)
    assert not stuck(passes, sent=100.0, now=100.0 + PATIENCE - 1)
    assert stuck(passes, sent=100.0, now=100.0 + PATIENCE + 1)


def test_labels_take_a_bounded_number_of_values() -> None:
    metrics = Metrics()
    names = {metrics.key(f"key-{i}") for i in range(1000)}
    assert len(names) == MAX_KEYS + 1
    assert metrics.key('x"} 1\n') == "other"
    assert metrics.key("") == "none"


def test_ids_decode_to_the_published_words() -> None:
    table = cl100k.table()
    assert table.decode([15339, 1917, 0]) == "hello world!"
    assert table.decode([100257]) == "<|endoftext|>"
    assert table.decode([128]) == "\ufffd"  # half a character
    assert table.word(cl100k.WORDS - 1)
    for bad in (-1, cl100k.WORDS, 100261, 100277):
        with pytest.raises(LookupError):
            table.word(bad)


def test_an_altered_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cl100k, "SHA256", "0" * 64)
    with pytest.raises(ApplianceError, match="not the published one"):
        cl100k.table.__wrapped__()


def test_a_missing_table_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cl100k, "_PACKAGE", "no_such_package")
    with pytest.raises(ApplianceError, match="missing"):
        cl100k.table.__wrapped__()


def test_ids_that_stand_for_a_space_are_one_where_a_space_itself_is_refused() -> None:
    assert inputs.texts([[9906], [220]], "input") == ["Hello", " "]
    with pytest.raises(ApiError, match="empty"):
        inputs.texts(["Hello", " "], "input")


def test_hyperthreads_are_counted_once(tmp_path: Path) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    for cpu in allowed:
        topology = tmp_path / f"cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text("0-99\n")
    assert process.physical_cores(tmp_path) == 1
    assert process.physical_cores(tmp_path / "none") == len(allowed)


def test_notifications_reach_systemds_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        notify("READY=1", "STATUS=Serving.")
        assert listener.recv(100) == b"READY=1\nSTATUS=Serving."
    notify("WATCHDOG=1")  # nobody listens any more: no error
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("WATCHDOG=1")


def test_a_model_that_is_not_ours_to_read_is_called_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "broken").symlink_to("nowhere")
    weights.check_readable(tmp_path, "owner/name")
    # As the server's user finds what root copied; root itself reads everything.
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: Path(path).exists() and (mode == os.F_OK or not Path(path).suffix),
    )
    with pytest.raises(ApplianceError, match=r"model\.safetensors is there, but not") as caught:
        weights.check_readable(tmp_path, "owner/name")
    assert "chown" in str(caught.value)
