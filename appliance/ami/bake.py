"""Packer, through PackerBuilder's client: lines as they come, an end that leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from appliance.ami.plan import REPO, Plan, endpoint
from appliance.ami.preconditions import packer_version
from appliance.errors import ApplianceError
from appliance.run import run

if TYPE_CHECKING:
    from packerpy import PackerClient

PLUGINS_SINCE = (1, 11)
PACKER = REPO / "packer"


def bake(plan: Plan) -> str:
    """Run Packer to its end and return the AMI's id.

    Ctrl-C and a timeout reach Packer as an interrupt: it terminates its instance and removes its
    key pair and security group, and only then does this function raise.

    Raises:
        ApplianceError: Packer failed, or took longer than the plan's timeout.
        KeyboardInterrupt: it was interrupted.
    """
    current = packer_version() >= PLUGINS_SINCE
    template = PACKER if current else PACKER / "packer-1.6"
    files = Files.write(plan)
    client = make_client(template, plan.out)
    if current and _run(client, plan, "init") != 0:
        raise ApplianceError("Packer cannot fetch its plugins.", f"See {plan.out}.")
    status = _run(client, plan, "build", "-color=false", f"-var-file={files.variables}")
    if status != 0:
        raise ApplianceError(
            f"Packer failed with status {status}.", f"Its output is in {plan.out}/packer-build.log."
        )
    return artifact(files.manifest.read_text(), plan.region)


class Files:
    """What Packer reads and writes, all in the plan's folder."""

    def __init__(self, folder: Path) -> None:
        self.tarball = folder / "infinity.tar.gz"
        self.variables = folder / "variables.pkrvars.json"
        self.manifest = folder / "packer-manifest.json"

    @classmethod
    def write(cls, plan: Plan) -> Files:
        """The commit as one tarball, and the variables."""
        plan.out.mkdir(parents=True, exist_ok=True)
        files = cls(plan.out)
        git = ("git", "-c", "safe.directory=*", "-C", REPO)
        run([*git, "archive", "--format=tar.gz", f"--output={files.tarball}", plan.commit])
        values: dict[str, object] = {
            "tarball": str(files.tarball),
            "commit": plan.commit,
            "version": plan.version,
            "build_id": plan.build_id,
            "region": plan.region,
            "ssh_cidr": plan.ssh_cidr,
            "endpoint": endpoint(),
            "manifest": str(files.manifest),
        }
        files.variables.write_text(json.dumps(values, indent=2) + "\n")
        return files


def make_client(template: Path, out: Path) -> PackerClient:
    from packerpy import PackerClient  # noqa: PLC0415 - installed where AMIs are built

    log = logging.getLogger("packer")
    log.setLevel(logging.INFO)
    return PackerClient(str(template), stream_file_dir=str(out), log=log)


def _run(client: PackerClient, plan: Plan, command: str, *words: str) -> int:
    """Packer's exit status, with interrupts passed on to it while it runs."""
    with _interrupts_go_to_packer(plan.timeout) as interrupted:
        process = client.run(command, *words)
        status = process.wait()
    if interrupted.is_set():
        raise KeyboardInterrupt
    return int(status)


@contextlib.contextmanager
def _interrupts_go_to_packer(timeout: float) -> Iterator[threading.Event]:
    """SIGINT and SIGTERM are passed on once and do not end this process before Packer has ended.

    Packer cancels at the first one and ignores what follows while it cleans up, so it does not
    matter that a terminal's Ctrl-C has reached it already.

    Raises:
        ApplianceError: the time was over; Packer has cleaned up by then.
    """
    interrupted, late = threading.Event(), threading.Event()

    def pass_on(_signal: int, _frame: FrameType | None) -> None:
        interrupted.set()
        _interrupt_children()

    def time_is_over() -> None:
        late.set()
        _interrupt_children()

    timer = threading.Timer(timeout, time_is_over)
    timer.daemon = True
    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    timer.start()
    try:
        yield interrupted
    finally:
        timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
    if late.is_set():
        raise ApplianceError(f"Packer did not finish within {timeout:g} s.", "It has cleaned up.")


def _interrupt_children() -> None:
    """SIGINT to every packer that this process has started."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    for child in map(int, children):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().strip() == "packer":
                os.kill(child, signal.SIGINT)


def artifact(manifest: str, region: str) -> str:
    """The AMI's id in the manifest that Packer wrote.

    Raises:
        ApplianceError: it names none for the region.
    """
    builds = json.loads(manifest)["builds"]
    for made in str(builds[-1]["artifact_id"]).split(","):
        where, _, image = made.partition(":")
        if where == region:
            return image
    raise ApplianceError(f"Packer's manifest names no AMI in {region}.")
