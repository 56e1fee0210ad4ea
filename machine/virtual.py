"""A machine with a kernel of its own: the image's disk, booted by QEMU in a machine's network.

It has the same place, address, metadata service and launch key as other machines; its commands
go over SSH, as an operator's do.
"""

from __future__ import annotations

import secrets
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import Completed, run
from machine import creation, disk, host, lifecycle, names, network, pids, qemu, ready, record
from machine.build import Image
from machine.names import Place
from machine.record import Record

# An emulated CPU takes 25 times as long to import PyTorch as the real one below it, and the limits
# of the service are for real ones. As user data it goes the way that an operator's would.
SLOW_CPU = """\
#cloud-config
bootcmd:
  - mkdir -p /run/systemd/system/infinity.service.d
  - printf '[Service]\\nTimeoutStartSec=1h\\nWatchdogSec=10min\\n' >/run/systemd/system/infinity.service.d/slow.conf
  - systemctl daemon-reload
"""  # noqa: E501 - a line of YAML
LOOK_EVERY = 3.0  # seconds; each look costs the guest a TLS handshake
PATIENCE = 60.0  # seconds for a unit's story, once the time for getting ready is over


@dataclass(frozen=True)
class Virtual:
    """One such machine of this checkout."""

    place: Place

    @classmethod
    def up(cls, name: str, image: Image) -> Virtual:
        """Make its disk, its network and its metadata service, and switch it on.

        Args:
            name: of the machine, within this checkout.
            image: one that was built with its kernel.

        Raises:
            ApplianceError: a tool, or room on the disk, is missing.
        """
        host.install(host.MACHINE_TOOLS | qemu.TOOLS)
        accel = qemu.accelerator(image)
        machine = cls(names.place(name))
        machine.down()
        machine.place.folder.mkdir(parents=True, mode=0o700)
        disk.make(image, machine.disk)
        qemu.new_firmware_settings(machine.place)
        lifecycle.make_key(machine.place)
        metadata = str(machine.place.metadata)
        instance_id = "i-0" + secrets.token_hex(8)
        saved = Record(network.create(machine.place), instance_id, (), image.key, image.suite,
                       image.model, metadata)  # fmt: skip
        record.save(machine.place, saved)
        served = creation.public_identity(instance_id)
        served |= {"user-data": SLOW_CPU} if accel == qemu.TCG else {}
        record.MetadataFile(machine.place.metadata).replace(served)
        lifecycle.write_defaults(machine.place, saved)
        lifecycle.start_emulator(machine.place, machine.place.metadata)
        machine.boot(accel)
        return machine

    @property
    def disk(self) -> Path:
        return self.place.folder / "disk.raw"

    @property
    def address(self) -> str:
        return network.machine_address(record.load(self.place).index)

    @property
    def ssh_key(self) -> Path:
        return self.place.key

    def boot(self, accel: tuple[str, ...]) -> None:
        """Switch it on; it ends with this process."""
        saved = record.load(self.place)
        argv = qemu.boot_argv(self.place, self.disk, saved.index, accel)
        with (self.place.folder / "qemu.log").open("ab") as log:
            process = subprocess.Popen(
                [*argv, *qemu.identity(saved.instance_id)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        pids.remember(self.place.nspawn, process.pid)

    def wait_ready(self, timeout: float) -> None:
        """Return once cloud-init is done and nginx and the model answer; raises as wait_for."""
        self.wait_for("/readyz", timeout)
        ready.wait(self._said, self.address, PATIENCE)

    def wait_for(self, path: str, timeout: float) -> None:
        """Return once the path answers 200: /healthz is nginx, /readyz an embedding.

        Raises:
            ApplianceError: QEMU has ended, or the time is over; with what the units or the
                console said last.
        """
        deadline = time.monotonic() + timeout
        while not ready.answers(self.address, path=path):
            if pids.alive(self.place.nspawn) is None or time.monotonic() > deadline:
                self._say_why()
            time.sleep(LOOK_EVERY)

    def _said(self, argv: Sequence[str]) -> str:
        return self.exec(argv, check=False).stdout

    def _say_why(self) -> None:
        try:
            self.exec(["true"])
        except ApplianceError as error:
            lines = self.place.console.read_text(errors="replace").splitlines()[-20:]
            tail = "".join(f"\n    {line}" for line in lines)
            raise ApplianceError(f"The disk did not boot ({error.message}):{tail}") from error
        ready.wait(self._said, self.address, PATIENCE)

    def exec(
        self,
        command: Sequence[str] | str,
        *,
        user: str = "root",
        check: bool = True,
        timeout: float = 300,
    ) -> Completed:
        """Run a command over SSH, as root by sudo, and return what it printed.

        Args:
            command: argv, or a script for bash.
            user: who runs it.
            check: raise when its exit status is not 0.
            timeout: seconds.

        Raises:
            ApplianceError: it cannot be reached, took too long, or (with ``check``) failed.
        """
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        line = shlex.join(["sudo", "-n", "-u", user, "--", *argv])
        done = run([*self.ssh(), line], check=False, timeout=timeout)
        if done.returncode == SSH_FAILED:
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise ApplianceError(f"No login to {self.address}: {said}")
        if check and done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip())[-2000:]
            raise ApplianceError(f"{line[:200]!r} failed with status {done.returncode}: {said}")
        return done

    def ssh(self) -> list[str]:
        """The command and its options; one connection serves all, for handshakes are slow."""
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes",
                   "IdentitiesOnly=yes", "ConnectTimeout=30", "LogLevel=ERROR",
                   "ControlMaster=auto", "ControlPersist=yes",
                   f"ControlPath={self.place.folder}/ssh")  # fmt: skip
        words = [f"-o{option}" for option in options]
        return ["ssh", *words, "-i", str(self.place.key), f"ubuntu@{self.address}"]

    def hang_up(self) -> None:
        """End the shared connection, before the other end does."""
        run([*self.ssh(), "-O", "exit"], check=False)

    def reboot(self, timeout: float) -> None:
        """Reboot as an operator does; returns when it serves again."""
        before = self.exec(BOOT_ID).stdout
        self.exec(["systemctl", "--no-block", "reboot"])
        self.hang_up()
        deadline = time.monotonic() + timeout
        while self._boot_id() in {"", before}:
            if time.monotonic() > deadline:
                raise ApplianceError("The machine did not come back from its reboot.")
            time.sleep(LOOK_EVERY)
        self.wait_ready(timeout)

    def _boot_id(self) -> str:
        try:
            return self.exec(BOOT_ID).stdout
        except ApplianceError:
            return ""

    def down(self) -> None:
        """Remove every trace of it; nothing when there is none."""
        if (self.place.folder / "ssh").exists():
            self.hang_up()
        lifecycle.remove(self.place)


SSH_FAILED = 255
BOOT_ID = ["cat", "/proc/sys/kernel/random/boot_id"]
