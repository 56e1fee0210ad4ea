"""Nothing tells who built the image, on which machine, or has been running in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from appliance.ami.tree import Finding, Tree

EMPTY_FOLDERS = {
    "temporary": ("/tmp", "/var/tmp", "/var/crash"),  # noqa: S108 - looked into, not written to
    "mail-and-jobs": ("/var/mail", "/var/spool/mail", "/var/spool/cron/crontabs", "/var/spool/at"),
    "leases": ("/var/lib/dhcp", "/var/lib/dhcpcd", "/var/lib/NetworkManager"),
    "cloud-init-state": ("/var/lib/cloud",),
    "logs": ("/var/log",),
    "package-cache": ("/var/lib/apt/lists", "/var/cache/apt/archives"),
    "agent-state": ("/var/lib/amazon/ssm", "/var/snap/amazon-ssm-agent"),
}
ALLOWED = re.compile(
    r"/var/lib/apt/lists/lock|/var/cache/apt/archives/lock|/var/spool/at/\.SEQ"
    # systemd's note that the journal has moved
    r"|/var/log/README"
    # cron's own note about a folder, from its package
    r"|/var/spool/cron/crontabs/\.placeholder"
)
ABSENT = {
    "seeds": (
        "/var/lib/systemd/random-seed",
        "/var/lib/systemd/credential.secret",
        "/boot/efi/loader/random-seed",
        "/var/lib/urandom/random-seed",
    ),
    "leases": ("/etc/netplan/50-cloud-init.yaml", "/etc/network/interfaces.d/50-cloud-init"),
    "hostname": ("/etc/hostname",),
    "build-leftovers": ("/usr/sbin/policy-rc.d", "/var/lib/dpkg/lock-frontend.build"),
    "memory": ("/swapfile", "/swap.img", "/hibfil.sys"),
}
HISTORY = re.compile(
    r"\..*_history|\.lesshst|\.viminfo|\.wget-hsts|\.python_history|\.rnd|\.nano_history"
)
HOME_LEFTOVERS = re.compile(r"/(root|home/[^/]+)/(\.cache/.+|\.ssh/(?!authorized_keys).+)")
BACKUPS = re.compile(r"/etc/(passwd|shadow|group|gshadow|subuid|subgid)-")


def empty_folders(tree: Tree) -> Iterator[Finding]:
    for rule, folders in EMPTY_FOLDERS.items():
        for entry in tree.below(*folders):
            empty = rule == "logs" and entry.status.st_size == 0
            if not entry.is_folder and not empty and not ALLOWED.fullmatch(entry.path):
                yield Finding(rule, entry.path, "was left by the machine that became the image")


def absent(tree: Tree) -> Iterator[Finding]:
    here = {entry.path: entry for entry in tree.entries}
    for rule, paths in ABSENT.items():
        for path in paths:
            if (entry := here.get(path)) and not entry.is_folder and entry.status.st_size:
                yield Finding(rule, path, "every instance would have the same")


def machine_id(tree: Tree) -> Iterator[Finding]:
    """Empty, and there: systemd fills an empty file, and takes a missing one for a first boot."""
    raw = tree.read("/etc/machine-id")
    if raw is None:
        yield Finding("machine-id", "/etc/machine-id", "is missing; it has to be there and empty")
    elif raw.strip():
        yield Finding("machine-id", "/etc/machine-id", "is not empty")
    elif tree.read("/var/lib/dbus/machine-id"):
        yield Finding("machine-id", "/var/lib/dbus/machine-id", "is not empty")


def shell_history(tree: Tree) -> Iterator[Finding]:
    for entry in tree.below("/root", "/home"):
        if entry.is_file and HISTORY.fullmatch(entry.name):
            yield Finding("shell-history", entry.path, "tells what was typed while building")


def home_leftovers(tree: Tree) -> Iterator[Finding]:
    for entry in tree.below("/root", "/home"):
        if not entry.is_folder and HOME_LEFTOVERS.fullmatch(entry.path):
            yield Finding("home-leftovers", entry.path, "was left by who built the image")
    for entry in tree.below("/etc"):
        if BACKUPS.fullmatch(entry.path):
            yield Finding("home-leftovers", entry.path, "is a copy of the accounts before cleaning")


RULES = (empty_folders, absent, machine_id, shell_history, home_leftovers)
