"""What only a kernel of the machine's own shows; asked while its model still loads."""

from __future__ import annotations

import re

import probe
import pytest

from audit.rows import disk as figures
from machine.virtual import Virtual

pytestmark = pytest.mark.boot

SECRETS = [str(path) for path in probe.IDENTITY if path.suffix != ".crt"]
# Each is refused to a user, or tells nothing.
USERS_WAYS = {
    "a user namespace": "unshare --user true",
    "the kernel's log": "dmesg",
    "the kernel's addresses": "awk '$1 !~ /^0+$/ {found=1} END {exit !found}' /proc/kallsyms",
    "another process's memory": "head -c 1 /proc/1/mem",
    "the kernel's settings": "sysctl -qw kernel.dmesg_restrict=1",
    "a module": "modprobe dummy",
}
CORES = """
mkdir -m 1777 -p /tmp/cores && cd /tmp/cores
ulimit -c unlimited
sh -c 'kill -SEGV $$'
for limit in 0 infinity; do
    systemd-run --quiet --wait --collect -p LimitCORE=$limit -p WorkingDirectory=$PWD \\
        sh -c 'kill -ABRT $$'
done
find $PWD /var/lib/systemd/coredump /var/crash -type f 2>/dev/null | wc -l
"""
# Two busy loops on one core, one in the model's slice and one among all other services.
BUSY = """
for slice in infinity system; do
    systemd-run --quiet --unit busy-$slice --slice $slice.slice -p CPUAffinity=0 \\
        sh -c 'while :; do :; done'
done
sleep 20
systemctl show -P CPUUsageNSec busy-infinity busy-system
systemctl stop busy-infinity busy-system
"""


def test_the_loader_on_the_disk_booted_it(booted: Virtual) -> None:
    told = booted.exec("cat /proc/cmdline; ls /sys/firmware/efi; findmnt -no SOURCE,FSTYPE /")
    assert "root=LABEL=infinity-root" in told.stdout
    assert "initrd=" not in told.stdout, "QEMU itself would have loaded the kernel"
    assert "runtime" in told.stdout
    assert re.search(r"^/dev/[a-z0-9]+2\s+ext4$", told.stdout, re.MULTILINE)


def test_kernel_settings_are_in_force(booted: Virtual) -> None:
    text = booted.exec(["cat", "/etc/sysctl.d/99-infinity.conf"]).stdout
    lines = [line for line in text.splitlines() if " = " in line and "*" not in line]
    wanted = dict(line.lstrip("-").split(" = ") for line in lines)
    optional = {line[1:].split(" = ")[0] for line in lines if line.startswith("-")}
    said = booted.exec(["sysctl", *wanted], check=False).stdout.splitlines()
    got = dict(line.split(" = ") for line in said if " = " in line)
    absent = optional - got.keys()
    wrong = {name: got.get(name) for name in wanted if got.get(name) != wanted[name]}
    wrong = {name: value for name, value in wrong.items() if name not in absent}
    measured = f"{len(wanted) - len(wrong) - len(absent)} of {len(wanted)}"
    figures.note("sysctl", f"{measured}, absent: {' '.join(absent) or 'none'}", passed=not wrong)
    assert not wrong


def test_users_get_nothing_from_the_kernel(booted: Virtual) -> None:
    script = "\n".join(
        f"if ( {way} ) >/dev/null 2>&1; then echo {name!r}; fi" for name, way in USERS_WAYS.items()
    )
    found = booted.exec(script, user="nobody").stdout.splitlines()
    figures.note("users", f"{len(found)} of {len(USERS_WAYS)} open", passed=not found)
    assert not found
    others = booted.exec(script).stdout.splitlines()
    assert "the kernel's log" in others, "what is tried can succeed"


def test_unneeded_modules_do_not_load(booted: Virtual) -> None:
    text = booted.exec(["cat", "/etc/modprobe.d/infinity.conf"]).stdout
    names = re.findall(r"^install (\S+) /bin/false$", text, re.MULTILINE)
    script = f"for name in {' '.join(names)}; do modprobe $name 2>/dev/null && echo $name; done"
    loaded = booted.exec(script, check=False).stdout.split()
    figures.note("modules", f"{len(loaded)} of {len(names)} load", passed=not loaded)
    assert len(names) > 10
    assert not loaded


def test_a_crash_leaves_no_core(booted: Virtual) -> None:
    found = booted.exec(CORES, check=False).stdout.split()[-1]
    booted.exec(["rm", "-rf", "/tmp/cores"])  # noqa: S108 - in the machine
    figures.note("cores", f"{found} of 3 crashes", passed=found == "0")
    assert found == "0"


def test_the_model_gets_the_larger_share_of_a_busy_core(booted: Virtual) -> None:
    """Five times here, where the model still loads and takes some of its slice's ten."""
    model, other = (int(line) for line in booted.exec(BUSY).stdout.split())
    figures.note("share", f"{model / other:.1f}x another service's", passed=model > 2 * other)
    assert model > 2 * other


def test_whoever_reads_a_secret_is_recorded(booted: Virtual) -> None:
    rules = booted.exec(["cat", "/etc/audit/rules.d/infinity.rules"]).stdout.splitlines()
    wanted = sum(rule.startswith("-") for rule in rules)
    loaded = len(re.findall(r"(?:-k |key=)infinity-", booted.exec(["auditctl", "-l"]).stdout))
    act = f"cat {' '.join(SECRETS)} >/dev/null; touch /home/ubuntu/.ssh/authorized_keys; sleep 1; "
    search = "ausearch --input-logs --start recent --raw --key "
    reads = booted.exec(f"{act} {search} infinity-secret --executable /usr/bin/cat").stdout
    recorded = sum(f'name="{path}"' in reads for path in SECRETS)
    logins = booted.exec(f"{search} infinity-login --executable /usr/bin/touch").stdout
    passed = loaded == wanted and recorded == len(SECRETS) and "authorized_keys" in logins
    measured = f"{loaded} of {wanted} rules, {recorded} of {len(SECRETS)} reads"
    figures.note("audit", measured, passed=passed)
    assert passed, measured
