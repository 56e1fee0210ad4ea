"""nginx as this appliance runs it: where, by which program, and the two things asked of it."""

from __future__ import annotations

import grp
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from appliance import units
from appliance.errors import ApplianceError
from appliance.paths import Paths
from appliance.run import run

WORKER_GROUP = "www-data"
_STARTING = frozenset({"start-pre", "start", "start-post"})
_UP = frozenset({"running", "reload"})
_CREDENTIAL = re.compile(r'"(?:bearer|basic) [^"]*"', re.IGNORECASE)
RELOAD_PATIENCE = 10.0  # seconds until a reload must have happened
_SEE_JOURNAL = "See `journalctl -u nginx` and /var/log/nginx/error.log."


@dataclass(frozen=True)
class Gate:
    """nginx below ``paths.root``: systemd's service on an instance, else a plain process.

    ``program`` is nginx's name on PATH, or its path.
    """

    paths: Paths
    program: str = "nginx"

    @property
    def is_service(self) -> bool:
        return self.paths.root == Path("/")

    @property
    def secret_owner(self) -> tuple[int, int]:
        """Who owns what nginx's master, or the plain process, reads."""
        return (0, 0) if self.is_service else (os.geteuid(), os.getegid())

    @property
    def login_owner(self) -> tuple[int, int]:
        """Who owns the password file: nginx's workers read it at each request."""
        if not self.is_service:
            return self.secret_owner
        try:
            return (0, grp.getgrnam(WORKER_GROUP).gr_gid)
        except KeyError as error:
            raise ApplianceError(
                f"There is no group {WORKER_GROUP}.", "Reinstall the nginx package."
            ) from error

    def test(self) -> None:
        """Have nginx read its whole configuration.

        Raises:
            ApplianceError: nginx refuses it; the message says where.
        """
        done = run([*self.command(), "-t", "-q"], check=False)
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if "[emerg]" in line]
            detail = said[0].partition("[emerg] ")[2] if said else done.stderr.strip()[-300:]
            raise ApplianceError(
                f"nginx refuses its configuration: {_CREDENTIAL.sub('a credential', detail)}.",
                "Mend the file it names (`sudo nginx -t` shows all of it), "
                "then try again; after a failed boot with `systemctl start infinity-firstboot`.",
            )

    def running(self) -> bool:
        """Whether systemd has nginx up; a plain process is its starter's business."""
        if not self.is_service:
            return False
        # While a start is checked, nginx serves with files that it has read, and is not "active".
        while (state := units.show("nginx.service", "SubState")["SubState"]) in _STARTING:
            time.sleep(0.1)
        return state in _UP

    def reload(self) -> None:
        """Have the running nginx take the new files, and return when it has; connections stay up.

        The master starts new workers, and tells the old ones some 100 ms later to accept no more:
        until then either may answer, so a check of the gate would say nothing.

        Raises:
            ApplianceError: nginx goes on with what it had.
        """
        deadline = time.monotonic() + RELOAD_PATIENCE
        # A master that has no workers yet forgets a signal (nginx 1.22), though it listens.
        while not (before := self._workers()):
            _wait(deadline)
        self.tell()
        while not self._replaced(before):
            _wait(deadline)

    def tell(self) -> None:
        """Have the running nginx take the new files, and do not wait for it."""
        # What `nginx -s reload` ends with, without its second reading of the configuration.
        os.kill(self._master(), signal.SIGHUP)

    def _replaced(self, before: set[int]) -> bool:
        return bool(self._workers() - before) and not any(map(_accepts, before))

    def _workers(self) -> set[int]:
        """Process ids of nginx's workers, old and new."""
        master = self._master()
        try:
            children = Path(f"/proc/{master}/task/{master}/children").read_text("ascii")
        except OSError as error:
            raise ApplianceError("nginx's processes cannot be found.", _SEE_JOURNAL) from error
        return set(map(int, children.split()))

    def _master(self) -> int:
        try:
            return int((self.paths.root / "run/nginx.pid").read_text("ascii"))
        except (OSError, ValueError) as error:
            raise ApplianceError("nginx's processes cannot be found.", _SEE_JOURNAL) from error

    def command(self) -> list[str]:
        """The program with its configuration."""
        if self.is_service:
            return [self.program]
        configuration = self.paths.nginx / "local.conf"
        # Nobody else may read the files below a root that root made.
        as_root = ["-g", "user root;"] if os.geteuid() == 0 else []
        root = ["-p", str(self.paths.root), "-c", str(configuration)]
        return [self.program, "-e", "stderr", *root, *as_root]


def _wait(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise ApplianceError("nginx did not take its new configuration.", _SEE_JOURNAL)
    time.sleep(0.02)


def _accepts(worker: int) -> bool:
    """Whether this worker takes new connections; no more once it says that it is shutting down."""
    try:
        title = Path(f"/proc/{worker}/cmdline").read_bytes()
    except OSError:  # gone, or hidden from this process (ProtectProc=)
        return False
    return title.startswith(b"nginx: worker") and b"shutting down" not in title
