"""`infinity-set-model` and `infinity-model` in a machine: other models, and when none are taken.

The tests run in this order, each from the models that the one before has left.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import probe
import pytest
import serving_model
from steady import steady

from appliance import carry
from appliance.ami import guide
from machine.inside import Finished
from machine.instance import Machine

pytestmark = pytest.mark.boot

HUB, ENV = "/var/lib/infinity/hf/hub", "/etc/infinity/infinity.env"
CHANGE = "/var/lib/infinity-appliance/change.json"
RERANKER, CLASSIFIER, BROKEN = "made/reranker", "made/classifier", "made/broken"
BY_HAND = "BAAI/bge-reranker-base"  # what the guide names; here a copy of the tiny one
FRANCE = ["What is the capital of France?", "Paris is the capital of France."]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache on this computer with tiny models, one of them broken."""
    made: Path = tmp_path_factory.mktemp("home") / "hf"
    shutil.copytree(serving_model.models(), made, symlinks=True)
    whole = serving_model.models() / "hub/models--made--reranker"
    shutil.copytree(whole, made / "hub/models--BAAI--bge-reranker-base", symlinks=True)
    broken = made / "hub/models--made--broken"
    shutil.copytree(whole, broken, symlinks=True)
    (weights,) = broken.glob("snapshots/*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:100_000])
    return made


@pytest.fixture(scope="module")
def machine(other: Machine, home: Path) -> Iterator[Machine]:
    """Serving, with the tiny models carried into its cache; afterwards it serves as before."""
    probe.eventually(lambda: ready(other), "the model")
    first = probe.credentials(other).model
    for model in (RERANKER, CLASSIFIER, BROKEN, BY_HAND):
        said = brought(other, parcel(home, model))
        assert said.returncode == 0, said.stderr
    yield other
    if probe.credentials(other).model != first:
        other.exec(["infinity-set-model", first], timeout=300)
    other.exec(f"rm -rf {HUB}/models--made--* {HUB}/models--BAAI--bge-reranker-base")


def parcel(home: Path, model: str) -> bytes:
    out = io.BytesIO()
    carry.write(carry.find(home / "hub", model), out)
    return out.getvalue()


def brought(machine: Machine, tar: bytes) -> Finished:
    """What `infinity-model import` says to a file."""
    machine.exec("cat >/root/model.tar", tar)
    done = machine.exec(["infinity-model", "import", "/root/model.tar"], check=False)
    machine.exec(["rm", "/root/model.tar"])
    return done


def ready(machine: Machine) -> bool:
    return probe.request(machine, "/readyz").status_code == 200


def state(machine: Machine) -> str:
    """All that a change of the model may change, and which run of the server it is."""
    files = f"cat {ENV} {probe.PATHS.credentials} {probe.PATHS.settings}; ls -R {HUB}"
    return machine.exec(files).stdout + probe.show(machine, "infinity.service", "InvocationID")


def reranks(machine: Machine, model: str = RERANKER) -> bool:
    body = {"model": model, "query": FRANCE[0], "documents": FRANCE}
    mine = probe.credentials(machine)
    answer = probe.request(machine, "/v1/rerank", headers=mine.bearer, body=body)
    return answer.status_code == 200 and len(answer.json()["results"]) == 2


def embeds(machine: Machine, model: str) -> bool:
    mine = probe.credentials(machine)
    body = {"model": model, "input": FRANCE}
    answer = probe.request(machine, "/v1/embeddings", headers=mine.bearer, body=body)
    return answer.status_code == 200 and len(answer.json()["data"][0]["embedding"]) == 384


def set_model(machine: Machine, *words: str) -> Finished:
    return machine.exec(["infinity-set-model", *words], check=False, timeout=300)


@contextmanager
def unchanged(machine: Machine) -> Iterator[None]:
    before = state(machine)
    yield
    assert state(machine) == before
    assert machine.exec("ls /run/systemd/system").stdout == "", "a trial is left"
    assert ready(machine)


def test_what_was_carried_is_listed_and_goes_on_to_the_next_instance(
    machine: Machine, home: Path
) -> None:
    rows = json.loads(machine.exec("infinity-model list --json").stdout)["models"]
    served = {row["id"]: row["served"] for row in rows}
    assert served[RERANKER] is False
    assert served[probe.credentials(machine).model] is True
    machine.exec(f"cd /root && rm -f again.tar && infinity-model export again.tar {RERANKER}")
    again = machine.exec("cat /root/again.tar; rm /root/again.tar").raw_stdout
    assert again == parcel(home, RERANKER)
    owners = machine.exec(f"find {HUB}/models--made--reranker -printf '%U\\n' | sort -u").stdout
    assert owners == machine.exec("id -u infinity").stdout


def test_a_tampered_file_is_refused_and_leaves_nothing(machine: Machine, home: Path) -> None:
    tar = parcel(home, RERANKER)
    at = len(tar) // 2  # in the weights
    with unchanged(machine):
        done = brought(machine, tar[:at] + bytes([tar[at] ^ 1]) + tar[at + 1 :])
        assert done.returncode == 1
        assert "differs from its sha256" in done.stderr
        assert brought(machine, tar.replace(b"config.json", b"/nfig.json")).returncode == 1
        assert brought(machine, b"").returncode == 1


def test_an_import_onto_a_full_disk_leaves_nothing(machine: Machine, home: Path) -> None:
    machine.exec(f"mount -t tmpfs -o size=4m,uid=infinity,gid=infinity tmpfs {HUB}")
    try:
        done = brought(machine, parcel(home, RERANKER))
        assert machine.exec(f"ls -A {HUB}").stdout == ""
    finally:
        machine.exec(["umount", HUB])
    assert done.returncode == 1
    assert "MB free" in done.stderr


def test_a_hostile_id_is_wrong_use(machine: Machine) -> None:
    with unchanged(machine):
        for given in ("../x", "a;b", "a/b\nMODEL=c/d", "a b", "--opt", "a/b@../../x", ""):
            for command in (["infinity-set-model", given], ["infinity-model", "pull", given]):
                done = machine.exec(command, check=False)
                assert done.returncode == 2, given
                assert "Traceback" not in done.stderr


def test_a_model_that_cannot_be_had_is_named(machine: Machine) -> None:
    with unchanged(machine):
        offline = set_model(machine, "nobody/none", "--offline")
        assert offline.returncode == 1
        assert "nobody/none" in offline.stderr
        online = set_model(machine, "nobody/none")
        assert online.returncode == 1
        assert "could not be downloaded" in online.stderr
        assert "Nothing was changed." in online.stderr


def test_a_reranker_takes_the_place_of_the_embedder(machine: Machine) -> None:
    mine = probe.credentials(machine)
    body = {"model": mine.model, "input": "x"}
    # 400: that model is served no more. Never an error of the server, never a dropped connection.
    with steady(machine, "/embeddings", body=body, answers={200, 400, 503}, rate=10) as calls:
        done = set_model(machine, RERANKER)
    assert done.returncode == 0, done.stderr
    assert f"Served now: {RERANKER} (rerank)" in done.stdout
    assert calls.failed == []
    assert reranks(machine)
    after = probe.serves(machine)
    assert after.model == RERANKER
    assert (after.api_key, after.password) == (mine.api_key, mine.password)


def test_a_broken_model_is_refused_and_the_reranker_serves_on(machine: Machine) -> None:
    body = {"model": RERANKER, "query": "x", "documents": ["y"]}
    with unchanged(machine), steady(machine, "/rerank", body=body, rate=10) as calls:
        done = set_model(machine, BROKEN)
    assert done.returncode == 1
    assert f"The model {BROKEN} cannot be loaded" in done.stderr
    assert "Nothing was changed." in done.stderr
    assert calls.failed == []
    assert reranks(machine)


def test_where_the_disk_is_full_the_reranker_serves_on(machine: Machine) -> None:
    folder = "/etc/infinity"
    machine.exec(
        f"set -e; cp -a {folder} /run/copy; mount -t tmpfs -o size=16k,mode=755 tmpfs {folder}; "
        f"cp -a /run/copy/. {folder}; rm -r /run/copy; "
        f"! dd if=/dev/zero of={folder}/full bs=1k 2>/dev/null"
    )
    try:
        with unchanged(machine):
            done = set_model(machine, CLASSIFIER)
    finally:
        machine.exec(["umount", folder])
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


def test_killed_in_the_switch_the_reranker_comes_back(machine: Machine) -> None:
    before = state(machine).rpartition("\n")[0]
    killed = (
        f"infinity-set-model {CLASSIFIER} >/dev/null & pid=$!; "
        f"until grep -q ^MODEL={CLASSIFIER} {ENV} && ! systemctl --quiet is-active infinity; "
        "do kill -0 $pid || exit 3; sleep 0.02; done; kill -KILL $pid"
    )
    machine.exec(killed, timeout=300)
    gone = ["test", "!", "-e", CHANGE]
    probe.eventually(lambda: machine.exec(gone, check=False).returncode == 0, "the way back")
    probe.eventually(lambda: ready(machine) and reranks(machine), "the reranker")
    assert state(machine).rpartition("\n")[0] == before
    probe.serves(machine)


def test_embedder_reranker_and_classifier_in_one_process(machine: Machine) -> None:
    names = ("embedder", "reranker", "classifier")
    words = [word for name in names for word in ("--as", name)]
    done = set_model(machine, serving_model.MINILM, RERANKER, CLASSIFIER, *words, "--offline")
    assert done.returncode == 0, done.stderr
    assert embeds(machine, "embedder")
    assert reranks(machine, "reranker")
    mine = probe.serves(machine)
    body = {"model": "classifier", "input": FRANCE}
    answer = probe.request(machine, "/classify", headers=mine.bearer, body=body)
    assert len(answer.json()["data"]) == 2
    assert mine.model == "embedder"
    pids = machine.exec("pgrep -c infinity_emb").stdout.strip()
    assert pids == "1"


def test_by_hand_as_the_guide_has_it_and_the_credentials_file_follows(machine: Machine) -> None:
    (by_hand,) = [
        block
        for block in re.findall(r"```sh\n(.*?)```", guide.GUIDE.read_text(), re.DOTALL)
        if "MODEL=" in block
    ]
    assert BY_HAND in by_hand
    machine.exec(f"sed -i 's|^INFINITY_SERVED_MODEL_NAME=.*|INFINITY_SERVED_MODEL_NAME=|' {ENV}")
    done = probe.ssh(machine, by_hand)
    assert done.returncode == 0, done.stderr
    assert "infinity" in done.stdout
    probe.eventually(lambda: probe.credentials(machine).model == BY_HAND, "following")
    assert reranks(machine, BY_HAND)
    mine = probe.serves(machine)
    machine.exec(
        f"sed -i 's|^MODEL=.*|MODEL={serving_model.MINILM}|' {ENV}; "
        "systemctl --no-block restart infinity.service"
    )
    answers = []

    def stopped() -> bool:
        answers.append(probe.request(machine, "/v1/models", headers=mine.bearer))
        return answers[-1].status_code == 503

    probe.eventually(stopped, "the restart", timeout=30)
    assert int(answers[-1].headers["Retry-After"]) > 0
    probe.eventually(lambda: probe.credentials(machine).model == serving_model.MINILM, "following")
    assert embeds(machine, serving_model.MINILM)
