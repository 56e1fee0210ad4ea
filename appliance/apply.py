"""The tail that first boot and every command share: activate, then verify."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from appliance import identity
from appliance.activate import Change, activated
from appliance.errors import ApplianceError
from appliance.gate import Gate
from appliance.paths import Paths
from appliance.settings import Settings

if TYPE_CHECKING:
    from appliance.verify import Target

LOCK_PATIENCE = 60.0  # seconds
PUT_BACK = "The old files are back in place, and nginx goes on with them."


def apply(
    files: Sequence[Change], settings: Settings, gate: Gate, then: Callable[[], None] | None = None
) -> None:
    """Put the files in place, and keep them only if nginx takes them and the gate holds.

    Where nginx does not run yet, its start runs the same check of the gate. ``then`` may try
    more, and raise when the change shall not stand.

    Raises:
        ApplianceError: what failed; everything is as it was before.
    """
    from appliance import verify  # noqa: PLC0415 - a boot with nothing to do does not pay for it

    with activated(files, gate):
        if gate.running():
            verify.require(target(settings, gate.paths), PUT_BACK)
        if then is not None:
            then()


def target(settings: Settings, paths: Paths) -> Target:
    """The gate with the credentials it has now.

    The password counts only while it is the one whose hash nginx has: an operator may have
    changed the login by hand and left the credentials file as it was.
    """
    # The commands that need no probe do not pay for these.
    import bcrypt  # noqa: PLC0415 - as said

    from appliance.verify import Target  # noqa: PLC0415 - as said

    password = identity.read_credentials(paths).get("INFINITY_PASSWORD", "")
    hashed = _hash_of(identity.USERNAME, paths.htpasswd)
    try:
        known = bool(password and hashed) and bcrypt.checkpw(password.encode(), hashed.encode())
    except ValueError:  # another kind of hash
        known = False
    return Target(settings, paths, identity.first_key(paths), password if known else None)


def _hash_of(user: str, htpasswd: Path) -> str:
    for line in htpasswd.read_text("utf-8", "replace").splitlines():
        name, _, hashed = line.partition(":")
        if name == user:
            return hashed
    return ""


@contextmanager
def locked(
    path: Path,
    busy: str = "Another change of this instance is under way.",
    patience: float = LOCK_PATIENCE,
) -> Iterator[None]:
    """Hold a lock that first boot and the commands share; it ends with the process.

    Args:
        path: of the lock.
        busy: what to say when another process has it.
        patience: seconds to wait for that one.

    Raises:
        ApplianceError: another one holds it for too long.
    """
    # 0600: whoever may open it may hold it, and with it every change of this instance.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise ApplianceError(
                        busy,
                        "Wait for it to end, then try again.",
                    ) from error
                time.sleep(0.1)
        yield
