"""An instance's disk below a folder, metadata by hand, and a boot of it in this process."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

import bcrypt
from cryptography import x509
from gate_harness import nginx_program

from appliance import identity, tls
from appliance.gate import Gate
from appliance.imds import Imds
from appliance.paths import Paths
from appliance.settings import Ports
from firstboot.__main__ import boot

REPO = Path(__file__).resolve().parents[2]
HOST = "ec2-203-0-113-7.compute.test"
OTHER_HOST = "ec2-203-0-113-8.compute.test"
FIRST, SECOND = "i-0aaaaaaaaaaaaaaaa", "i-0bbbbbbbbbbbbbbbb"
CRASHED = 137
P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Metadata(Imds):
    """What the metadata service says, without the service; its client has tests of its own."""

    values: dict[str, str] = field(default_factory=dict)
    failure: Exception | None = None

    def get(self, path: str) -> str | None:
        if self.failure is not None:
            raise self.failure
        return self.values.get(path.removeprefix("meta-data/"))


def metadata(instance_id: str = FIRST, public_hostname: str = HOST) -> Metadata:
    return Metadata(values={"instance-id": instance_id, "public-hostname": public_hostname})


@dataclass(frozen=True)
class Disk:
    """The root filesystem of an instance as far as first boot is concerned."""

    paths: Paths

    @classmethod
    def fresh(cls, root: Path) -> Disk:
        """As the image has it."""
        disk = cls(Paths(root))
        for folder in ("etc/infinity", "etc/cloudimg", "var/log/nginx", "var/lib/nginx", "run"):
            (root / folder).mkdir(parents=True)
        shutil.copytree(REPO / "nginx", disk.paths.nginx)
        disk.paths.server_env.write_text("DTYPE=float32\nMODEL=owner/model@main;owner/second\n")
        disk.paths.machine_id.write_text("0" * 32 + "\n")
        return disk

    @property
    def gate(self) -> Gate:
        return Gate(self.paths, nginx_program())

    def boot(self, said: Imds | None = None) -> str:
        return boot(self.gate, said or metadata(), Ports())

    def boot_and_crash(self, said: Imds, effect: int) -> bool:
        """Boot in a child that dies just before its ``effect``-th change of the disk.

        Returns:
            Whether it died; False when it was done before.
        """
        child = os.fork()
        if child == 0:
            status = 1
            try:
                die_before(effect)
                self.boot(said)
                status = 0
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in {0, CRASHED}, f"the boot failed with status {status}"
        return status == CRASHED

    def killed_before_commit(self, change: Callable[[], object]) -> bool:
        """Make a change in a child that dies just before it would stand; whether it died."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _die_before_commit(self.paths)
                change()
                status = 0
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CRASHED

    def secrets(self) -> tuple[str, str, bytes]:
        """API key, password and TLS private key."""
        known = identity.load(self.paths)
        assert known.api_key, "the credentials file has no key"
        assert known.password, "the credentials file has no password"
        return known.api_key, known.password, self.paths.certificate_key.read_bytes()

    def certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.paths.certificate.read_bytes())

    def assert_whole(self, host: str = HOST) -> None:
        """Whatever nginx accepts is what the credentials file says, and the stamp is final."""
        key, password, tls_key = self.secrets()
        user, _, hashed = self.paths.htpasswd.read_text().strip().partition(":")
        assert identity.first_key(self.paths) == key
        assert user == "admin"
        assert bcrypt.checkpw(password.encode(), hashed.encode())
        assert tls.belongs(tls_key, self.paths.certificate.read_bytes())
        assert tls.covers(self.paths.certificate.read_bytes(), [host])
        assert f"server_name {host};" in self.paths.nginx_site.read_text()
        said = identity.read_credentials(self.paths)
        assert said["INFINITY_URL"] == f"https://{host}/"
        assert json.loads(self.paths.stamp.read_text())["done"] is True
        assert not list(self.paths.root.rglob(".*.before")), "an old file is left aside"
        assert not list(self.paths.root.rglob(".*.new")), "a part of a file is left"
        self.gate.test()


def die_before(effect: int) -> None:
    """Make every call that changes the disk count, and the given one the last."""
    left = effect

    def counted(real: Callable[P, R]) -> Callable[P, R]:
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(CRASHED)
            return real(*args, **kwargs)

        return call

    for name in ("replace", "unlink", "link"):
        setattr(os, name, counted(getattr(os, name)))


def _die_before_commit(paths: Paths) -> None:
    real = os.replace

    def replace(source: str | Path, target: str | Path) -> None:
        if Path(source) == paths.change:
            os._exit(CRASHED)
        real(source, target)

    setattr(os, "replace", replace)  # noqa: B010 - an attribute of the module, whatever its type
