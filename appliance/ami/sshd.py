"""What an image's own sshd says its configuration amounts to (``sshd -T``)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from appliance.ami.tree import Tree
from appliance.errors import ApplianceError
from appliance.run import run

WANTED = {
    "passwordauthentication": ("no",),
    "kbdinteractiveauthentication": ("no",),
    "permitemptypasswords": ("no",),
    "permitrootlogin": ("no",),
    "hostbasedauthentication": ("no",),
    "permituserenvironment": ("no",),
    "authorizedkeysfile": (".ssh/authorized_keys .ssh/authorized_keys2", ".ssh/authorized_keys"),
}

# sshd wants a host key and its folder before it says anything, and an image has neither: both
# are made on a file system that only this process sees, so that nothing reaches the disk.
ASK = """
mount -t tmpfs -o mode=0755 tmpfs "$1/run"
mkdir -m 0755 "$1/run/sshd"
chroot "$1" ssh-keygen -q -t ed25519 -N "" -f /run/sshd/key
exec chroot "$1" /usr/sbin/sshd -T -h /run/sshd/key
"""


class CannotTellError(Exception):
    """sshd gave no answer; the text says why."""


def effective(tree: Tree) -> dict[str, str]:
    """Each option in lower case with its value.

    Raises:
        CannotTellError: there is no sshd, this is not root, or sshd refuses its configuration.
    """
    if not _present(tree):
        raise CannotTellError("there is none")
    alone = ("unshare", "--mount", "--propagation", "private", "--")
    with tempfile.TemporaryDirectory(prefix="sshd-") as folder:
        script = Path(folder) / "ask"
        script.write_text(f"set -e\n{ASK}")
        try:
            said = run([*alone, "sh", script, tree.root]).stdout
        except ApplianceError as error:
            raise CannotTellError(error.message) from error
    pairs = (line.split(maxsplit=1) for line in said.splitlines())
    return {pair[0].lower(): pair[1] if len(pair) > 1 else "" for pair in pairs if pair}


def _present(tree: Tree) -> bool:
    try:
        return tree.host("/usr/sbin/sshd").is_file()
    except OSError:
        return False
