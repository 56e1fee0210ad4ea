"""Nobody can log in to a fresh instance but the holder of its launch key pair."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.ami import sshd
from appliance.ami.tree import Finding, Tree

HASHES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd")
PASSWD = ("/etc/passwd", "/etc/passwd-")


def authorized_keys(tree: Tree) -> Iterator[Finding]:
    for entry in tree.entries:
        if entry.name.startswith("authorized_keys") and entry.is_file and entry.status.st_size:
            yield Finding("authorized-keys", entry.path, "lets somebody's key in")


def password_hash(tree: Tree) -> Iterator[Finding]:
    """No field holds a password, not even the hash of one behind a lock."""
    for path in HASHES:
        for line in tree.lines(path):
            user, *fields = line.split(":")
            hashed = fields[0] if fields else "?"
            if path == "/etc/shadow" and not hashed:
                yield Finding("password-hash", path, f"{user} needs no password")
            elif hashed.strip("!*"):
                yield Finding("password-hash", path, f"a password or its hash for {user}")
    for path in PASSWD:
        for line in tree.lines(path):
            user, *fields = line.split(":")
            if fields and fields[0] not in {"x", "*", "!"}:
                yield Finding("password-hash", path, f"a password, or none asked, for {user}")


def root_locked(tree: Tree) -> Iterator[Finding]:
    hashed = dict(line.split(":")[:2] for line in tree.lines("/etc/shadow") if ":" in line)
    if not hashed.get("root", "").startswith(("!", "*")):
        yield Finding("root-locked", "/etc/shadow", "root's password is not locked")
    for line in tree.lines("/etc/passwd"):
        user, _, uid = [*line.split(":"), "", ""][:3]
        if uid == "0" and user != "root":
            yield Finding("root-locked", "/etc/passwd", f"{user} is another root")


def sshd_logins(tree: Tree) -> Iterator[Finding]:
    """What sshd itself makes of its configuration."""
    try:
        effective = sshd.effective(tree)
    except sshd.CannotTellError as error:
        yield Finding("sshd", "/usr/sbin/sshd", f"cannot be asked: {error}")
        return
    for option, wanted in sshd.WANTED.items():
        if (found := effective.get(option, "nothing")) not in wanted:
            why = f"{option} is {found}, not {' or '.join(wanted)}"
            yield Finding("sshd", "/etc/ssh/sshd_config", why)


RULES = (authorized_keys, password_hash, root_locked, sshd_logins)
