"""Another version of the model server, installed beside the present one and compared with it.

``/opt/infinity/venv`` is a link into ``/opt/infinity/venvs``; ``venv-previous`` leads to what the
last upgrade replaced. An upgrade copies the present environment, lets pip change the copy, and
moves the links.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from appliance import ask, command, model_switch, trial, units
from appliance.activate import NewLink
from appliance.apply import apply
from appliance.ask import Answered
from appliance.errors import ApplianceError
from appliance.files import sync_directory
from appliance.gate import Gate
from appliance.paths import Paths
from appliance.run import run

VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,4}(?:(?:a|b|rc|\.post|\.dev)[0-9]+)?", re.ASCII)
SPARE = 512 * 2**20  # bytes of the disk that an upgrade leaves free
ALIKE = 0.999  # cosine of the vectors of one text
NEAR = 0.01  # between scores of one pair, or of one label
# What works in an environment ends with the command that is to judge it, however that ends.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_GPU = re.compile(r"(nvidia|triton|cuda)", re.IGNORECASE)


def installed(venv: Path) -> dict[str, str]:
    """Versions by package, read from the folders' names: no code of a package runs for it."""
    found = {}
    for info in venv.glob("lib/python3*/site-packages/*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        found[name.lower().replace("_", "-")] = version
    return found


def copied(name: str, paths: Paths) -> Path:
    """A copy of the present environment, at home in its new folder.

    Raises:
        ApplianceError: the disk has no room for it.
    """
    if not paths.venv.is_symlink():
        raise ApplianceError(
            f"{paths.venv} is no link.", f"Move it below {paths.venvs} and link to it."
        )
    old, new = paths.venv.resolve(), paths.venvs / name
    sweep(paths)
    size = sum(path.lstat().st_size for path in old.rglob("*"))
    free = shutil.disk_usage(paths.venvs).free
    if free < size + SPARE:
        raise ApplianceError(
            f"A second environment takes {size / 1e9:.1f} GB, and the disk has {free / 1e9:.1f} GB "
            "free.",
            "Enlarge the volume.",
        )
    if new.exists():
        raise ApplianceError(f"{new} exists.", "Roll back first, or name another version.")
    run([*ENDS_WITH_US, "cp", "--archive", "--reflink=auto", old, new], timeout=None)
    for script in (new / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            text = script.read_bytes()
            script.write_bytes(text.replace(f"{old}/".encode(), f"{new}/".encode()))
    return new


def install(version: str, venv: Path, options: Sequence[str]) -> None:
    """Have pip put this version of Infinity into the environment; PyTorch stays as it is.

    Raises:
        ApplianceError: pip refused, or the result is not what was asked for.
    """
    before = installed(venv)
    wanted = [f"infinity-emb[server,torch]=={version}", f"torch=={before['torch']}"]
    if before.get("infinity-emb") == version:  # a repair
        wanted = ["--force-reinstall", "--no-deps", wanted[0]]
    run(
        [
            *ENDS_WITH_US,
            *(venv / "bin/python", "-I", "-m", "pip", "install", "--quiet", "--no-input"),
            *("--disable-pip-version-check", "--no-cache-dir", "--only-binary", ":all:"),
            *(*options, *wanted),
        ],
        timeout=None,
        hint="Check the version and outbound HTTPS to the package index, or give --find-links.",
    )
    after = installed(venv)
    gpu = [name for name in after if _GPU.match(name)]
    if after.get("infinity-emb") != version or after.get("torch") != before["torch"] or gpu:
        raise ApplianceError(
            f"pip installed infinity-emb {after.get('infinity-emb')} with torch "
            f"{after.get('torch')} {' '.join(gpu)}.".replace(" .", "."),
            "This version does not go with the CPU build of PyTorch that is installed.",
        )


def compare(old: Sequence[Answered], new: Sequence[Answered]) -> None:
    """Raise ApplianceError unless both servers say the same to the same texts."""
    before, after = ({(a.model, a.task): a.figures for a in answers} for answers in (old, new))
    if before.keys() != after.keys():
        raise ApplianceError(
            "The new version does not serve the same models for the same tasks.",
            "Stay with this one, or set other models first.",
        )
    for (model, task), rows in before.items():
        pairs = list(zip(rows, after[model, task], strict=True))
        if any(len(a) != len(b) for a, b in pairs):
            far = True
        elif task == "embed":
            far = min(ask.cosine(a, b) for a, b in pairs) < ALIKE
        else:
            far = max(abs(x - y) for a, b in pairs for x, y in zip(a, b, strict=True)) > NEAR
        if far:
            raise ApplianceError(
                f"The new version answers otherwise: {model}, {task}.",
                "Vectors that are stored would not fit new ones: stay with this version.",
            )


def attempt(venv: Path, gate: Gate, watch: Callable[[str], None]) -> list[Answered]:
    """What the present models answer in another environment, beside the present server.

    Raises:
        ApplianceError: they do not load or answer there.
    """
    with trial.server(model_switch.environment(gate.paths), venv, watch) as port:
        return ask.everything(port)


def switch(venv: Path, gate: Gate) -> list[Answered]:
    """Serve from this environment; when it does not answer, from the old one again.

    Raises:
        ApplianceError: what failed; everything is as it was.
    """
    paths = gate.paths
    answers: list[Answered] = []
    with model_switch.old_server_back(gate), command.changing(gate) as known:

        def serve() -> None:
            units.restart(units.SERVER)
            answers.extend(ask.everything(known.ports.upstream))

        links = [
            NewLink(paths.previous_venv, f"venvs/{paths.venv.resolve().name}"),
            NewLink(paths.venv, f"venvs/{venv.name}"),
        ]
        apply(links, known, gate, serve)
    return answers


def previous(paths: Paths) -> Path:
    """The environment that the last upgrade replaced.

    Raises:
        ApplianceError: there was none.
    """
    if not paths.previous_venv.is_symlink() or not paths.previous_venv.exists():
        raise ApplianceError("There is no version to go back to.", "Nothing was upgraded yet.")
    return paths.previous_venv.resolve()


def sweep(paths: Paths) -> None:
    """Delete what is neither served from nor gone back to, such as what a kill left half made."""
    # Links that a change has set aside count: it may yet be taken back.
    kept = {link.resolve() for link in paths.venv.parent.iterdir() if link.is_symlink()}
    for venv in paths.venvs.iterdir():
        if venv.resolve() not in kept:
            shutil.rmtree(venv)
    sync_directory(paths.venvs)
