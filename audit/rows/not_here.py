"""Controls that this kind of machine cannot try, each with why: said, not passed over."""

from __future__ import annotations

from collections.abc import Iterator

from audit.row import Row, untested
from machine.instance import Machine

KERNEL = "the machine shares its host's kernel"


def rows(machine: Machine) -> Iterator[Row]:
    yield untested("sysctl: kernel.*, fs.*, vm.*", "sysctl", "as in sysctl.d", KERNEL)
    yield untested("auditd's rules for the secrets' paths", "auditctl", "loaded", KERNEL)
    modules = machine.exec(["cat", "/sys/module/apparmor/parameters/enabled"], check=False).stdout
    if modules.strip() != "Y":
        yield untested("AppArmor around nginx and infinity", "aa-status", "enforced",
                       "the host's kernel has no AppArmor; they compile, and complain")  # fmt: skip
    controllers = machine.exec(["cat", "/sys/fs/cgroup/cgroup.controllers"]).stdout.split()
    if not {"memory", "pids"} <= set(controllers):
        why = "the host's version 2 control groups lack memory and pids"
        yield untested("MemoryMax=, TasksMax=", "systemd", "held", why)
