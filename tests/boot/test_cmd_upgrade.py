"""`infinity-upgrade` in a machine, to a copy of its own Infinity under a higher version."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import probe
import pytest
from steady import steady

from machine import wheels
from machine.instance import Machine

pytestmark = pytest.mark.boot

NOW, NEXT = "0.0.77", "0.0.78"
VENVS, LINK = "/opt/infinity/venvs", "/opt/infinity/venv"
INSTALL = "--no-index --find-links /root/wheels"


def renumbered(wheel: Path) -> tuple[str, bytes]:
    """Name and content of the wheel under the next version."""
    out, record = io.BytesIO(), []
    old, new = (f"infinity_emb-{number}.dist-info" for number in (NOW, NEXT))
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(out, "w") as made:
        for name in source.namelist():
            if name.endswith("/RECORD"):
                continue
            data = source.read(name)
            if name.endswith("/METADATA"):
                data = data.replace(f"\nVersion: {NOW}\n".encode(), f"\nVersion: {NEXT}\n".encode())
                # As in packer/locks/overrides.in: Python 3.13 has no numpy 1.
                data = data.replace(b"numpy (>=1.20.0,<2)", b"numpy (>=1.20.0)")
            made.writestr(name.replace(old, new), data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name.replace(old, new)},sha256={digest},{len(data)}")
        made.writestr(f"{new}/RECORD", "\n".join([*record, f"{new}/RECORD,,"]) + "\n")
    return wheel.name.replace(f"-{NOW}-", f"-{NEXT}-"), out.getvalue()


@pytest.fixture(scope="module")
def machine(other: Machine) -> Iterator[Machine]:
    """Serving, with a wheel of the next version in /root."""
    probe.eventually(lambda: ready(other), "the model")
    bring_wheel(other)
    yield other
    other.exec("rm -r /root/wheels")


def bring_wheel(machine: Machine) -> None:
    """Put the next version where ``INSTALL`` finds it."""
    python = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = machine.exec(["python3", "-c", python]).stdout.strip()
    (wheel,) = wheels.locked("server", version).glob(f"infinity_emb-{NOW}-*.whl")
    name, data = renumbered(wheel)
    machine.exec(f"mkdir -p /root/wheels && cat >/root/wheels/{name}", data)


def ready(machine: Machine) -> bool:
    return probe.request(machine, "/readyz").status_code == 200


def version(machine: Machine) -> str:
    """As the guide asks for it."""
    shown = machine.exec([f"{LINK}/bin/pip", "show", "infinity-emb"]).stdout
    return next(line.split()[1] for line in shown.splitlines() if line.startswith("Version:"))


def vector(machine: Machine) -> list[float]:
    mine = probe.serves(machine)
    body = {"model": mine.model, "input": "cloudimg makes self-hosted AI easy"}
    answer = probe.request(machine, "/embeddings", headers=mine.bearer, body=body)
    found: list[float] = answer.json()["data"][0]["embedding"]
    return found


def environments(machine: Machine) -> list[str]:
    return machine.exec(["ls", VENVS]).stdout.split()


def links(machine: Machine) -> str:
    found = machine.exec(f"readlink {LINK} {LINK}-previous", check=False).stdout
    return found + probe.show(machine, "infinity.service", "InvocationID")


def test_killed_while_it_installs_it_serves_on_and_the_next_run_cleans_up_and_changes_over(
    machine: Machine,
) -> None:
    before, was = links(machine), vector(machine)
    machine.exec(
        f"infinity-upgrade {NEXT} {INSTALL} >/dev/null 2>&1 & pid=$!; "
        f"until [ $(ls {VENVS} | wc -l) -gt 1 ]; do kill -0 $pid || exit 3; sleep 0.05; done; "
        "kill -KILL $pid",
        timeout=300,
    )
    assert links(machine) == before
    assert vector(machine) == was
    with steady(machine, answers={200, 503}, rate=5) as calls:
        done = machine.exec(f"infinity-upgrade {NEXT} {INSTALL}", check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"Served now, by Infinity {NEXT}" in done.stdout
    assert calls.failed == []
    assert version(machine) == NEXT
    assert len(environments(machine)) == 2
    assert vector(machine) == pytest.approx(was, abs=1e-5)
    cuda = machine.exec([f"{LINK}/bin/python", "-c", "import torch; print(torch.version.cuda)"])
    assert cuda.stdout == "None\n"


def test_it_goes_back_to_the_version_before(machine: Machine) -> None:
    was = vector(machine)
    done = machine.exec("infinity-upgrade --rollback", check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"Served now, by Infinity {NOW}" in done.stdout
    assert version(machine) == NOW
    assert vector(machine) == pytest.approx(was, abs=1e-5)


def test_a_version_that_does_not_start_is_refused_and_the_present_one_serves_on(
    machine: Machine,
) -> None:
    machine.exec(
        f"echo 'raise ImportError(\"this one does not start\")' "
        f">>$(echo {LINK}-previous/lib/python3*/site-packages/infinity_emb/__init__.py)"
    )
    before = links(machine)
    with steady(machine, rate=5) as calls:
        done = machine.exec("infinity-upgrade --rollback", check=False, timeout=300)
    assert done.returncode == 1
    assert "this one does not start" in done.stderr
    assert "Nothing was changed." in done.stderr
    assert links(machine) == before
    assert calls.failed == []
    assert version(machine) == NOW


def test_wrong_use_is_said_at_once(machine: Machine) -> None:
    for words in ("", "'0.0;x'", "--rollback 0.0.78", "latest", "../x"):
        done = machine.exec(f"infinity-upgrade {words}", check=False)
        assert done.returncode == 2, words
        assert "Traceback" not in done.stderr
