"""A local machine as a value: what tests, the command line and ``make run`` all use.

machine = Machine.up("web", {"instance-id": "i-1", "public-hostname": "a.test"})
machine.exec("systemctl is-active nginx").stdout
machine.metadata["public-hostname"] = "b.test"
machine.reboot()
machine.down()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError
from machine import creation, inside, lifecycle, names, network, pids, ready, record
from machine.build import Image
from machine.inside import Finished
from machine.names import Place
from machine.record import MetadataFile, Record

READY_TIMEOUT = 240.0  # seconds


@dataclass(frozen=True)
class Machine:
    """One machine of this checkout, running or not."""

    place: Place

    @classmethod
    def up(
        cls,
        name: str = names.DEFAULT,
        imds: Mapping[str, object] | None = None,
        *,
        imds_file: Path | None = None,
        no_imds: bool = False,
        source: str | None = None,
        wait: bool = True,
        timeout: float = READY_TIMEOUT,
        image: Image | None = None,
    ) -> Machine:
        """Make and boot a machine, or start one that is powered off.

        Args:
            name: of the machine, within this checkout.
            imds: what its metadata says; None is a public name and address of its own.
                What every instance has (instance-id, local-ipv4, the launch key, …) is
                added unless named; a null takes it away.
            imds_file: a file of the caller's to serve instead, read again at each request.
            no_imds: no metadata service at all.
            source: start from a copy of that machine's disk, under another instance-id.
            wait: return only when all answers; otherwise as soon as systemd runs.
            timeout: seconds to wait for that.
            image: what a new machine boots; None is the host's release.

        Raises:
            ApplianceError: it is running already, or did not get ready (it is then still
                there to look into; ``down`` removes it).
        """
        machine = cls(names.place(name))
        if machine.running:
            raise ApplianceError(
                f"The machine {name!r} is running already.",
                f"`python3 -m machine down --name {name}` removes it.",
            )
        if not machine.place.record.exists():
            creation.create(machine.place, source, image)
        creation.choose_metadata(machine.place, imds, imds_file, none=no_imds)
        lifecycle.start(machine.place, machine.record)
        machine.wait_up()
        if wait:
            machine.wait_ready(timeout)
        return machine

    @classmethod
    def all(cls) -> list[Machine]:
        """Every machine of this checkout that has a record."""
        return [cls(place) for place in names.every_place() if place.record.exists()]

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def record(self) -> Record:
        return record.load(self.place)

    @property
    def address(self) -> str:
        """The IPv4 address to reach it at from the host."""
        return network.machine_address(self.record.index)

    @property
    def url(self) -> str:
        """As the credentials file says; ends with a slash."""
        return self.credential("INFINITY_URL")

    @property
    def root(self) -> Path:
        """Its root filesystem, mounted on the host while it runs."""
        return self.place.merged

    @property
    def ssh_key(self) -> Path:
        """The private key of its launch key pair."""
        return self.place.key

    @property
    def metadata(self) -> MetadataFile:
        """What the emulator serves from now on; assign to change it."""
        served = self.record.metadata
        return MetadataFile(Path(served) if served else self.place.metadata)

    @property
    def running(self) -> bool:
        return lifecycle.running(self.place) is not None

    def credential(self, key: str) -> str:
        """One value of the credentials file, such as INFINITY_API_KEY."""
        for line in self.exec(["cat", "/root/infinity-credentials.txt"]).stdout.splitlines():
            if line.startswith(f"{key}="):
                return line.partition("=")[2]
        raise ApplianceError(f"The credentials file of machine {self.name!r} has no {key}.")

    def exec(
        self,
        command: Sequence[str] | str,
        input: str | bytes | None = None,  # noqa: A002 - as in subprocess.run
        *,
        user: str = "root",
        check: bool = True,
        timeout: float | None = 120,
    ) -> Finished:
        """Run a command inside and return what it printed.

        Args:
            command: argv, or a script for bash.
            input: for its standard input, otherwise empty.
            user: who runs it.
            check: raise when its exit status is not 0.
            timeout: seconds until it is stopped.

        Raises:
            ApplianceError: the machine does not run, the command took too long, or failed.
        """
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        return inside.run(self.leader(), argv, input, user=user, check=check, timeout=timeout)

    def leader(self) -> int:
        """Its PID 1 as numbered on the host."""
        leader = lifecycle.running(self.place)
        if leader is None:
            record.load(self.place)  # says so if there is none at all
            raise ApplianceError(
                f"The machine {self.name!r} is not running.",
                f"`python3 -m machine up --name {self.name}` starts it.",
            )
        return leader

    def wait_up(self) -> None:
        """Return once systemd in the machine takes commands."""
        lifecycle.wait(self.place, lambda: self.exec(["true"], check=False).returncode == 0, "boot")

    def wait_ready(self, timeout: float = READY_TIMEOUT) -> None:
        """Return once cloud-init is done and nginx and the model answer, or say what failed."""
        ready.wait(lambda argv: self.exec(argv, check=False).stdout, self.address, timeout)

    def reboot(self, *, wait: bool = True, timeout: float = READY_TIMEOUT) -> None:
        """Reboot as ``systemctl reboot`` inside does."""
        before = self.leader()
        self.exec(["systemctl", "reboot"], check=False)
        lifecycle.wait(
            self.place, lambda: lifecycle.running(self.place) not in {None, before}, "reboot"
        )
        self.wait_up()
        if wait:
            self.wait_ready(timeout)

    def stop(self, *, power_cut: bool = False) -> None:
        """Power off, in order or by killing every process at once; the disk stays."""
        if not power_cut:
            self.exec(["systemctl", "poweroff"], check=False)
            supervisor = self.place.supervisor
            lifecycle.wait(self.place, lambda: not pids.alive(supervisor), "power off")
        lifecycle.sweep(self.place)

    def start(self, *, wait: bool = True, timeout: float = READY_TIMEOUT) -> None:
        """Start it again after ``stop``, with the disk and metadata it has."""
        lifecycle.start(self.place, self.record)
        self.wait_up()
        if wait:
            self.wait_ready(timeout)

    def down(self) -> None:
        """Remove every trace of it; nothing when there is none."""
        lifecycle.remove(self.place)
