"""What a stranger, and a user without root's rights, gets from sshd and from the system."""

from __future__ import annotations

import probe
import pytest

from appliance.run import Completed, run
from machine.instance import Machine

pytestmark = pytest.mark.boot

EFFECTIVE = {
    "passwordauthentication": "no",
    "kbdinteractiveauthentication": "no",
    "permitemptypasswords": "no",
    "permitrootlogin": "no",
    "permituserenvironment": "no",
    "allowtcpforwarding": "no",
    "allowagentforwarding": "no",
    "allowstreamlocalforwarding": "no",
    "x11forwarding": "no",
    "permittunnel": "no",
}
# Each with what makes it the one that counts: a MAC needs a cipher that does not bring its own.
WEAK = (
    "KexAlgorithms=ecdh-sha2-nistp256",
    "KexAlgorithms=diffie-hellman-group14-sha256",
    "HostKeyAlgorithms=ecdsa-sha2-nistp256",
    "MACs=hmac-sha1 -oCiphers=aes128-ctr",
    "MACs=umac-64-etm@openssh.com -oCiphers=aes128-ctr",
)
COMPILERS = "cc gcc c++ g++ clang tcc as ld ld.bfd ld.gold make go rustc javac"


def login(machine: Machine, *options: str, user: str = "ubuntu", key: bool = True) -> Completed:
    common = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes",
              "IdentitiesOnly=yes", "ConnectTimeout=20")  # fmt: skip
    words = [f"-o{option}" for option in common]
    identity = ["-i", str(machine.ssh_key)] if key else []
    return run(
        ["ssh", *words, *identity, *options, f"{user}@{machine.address}", "true"],
        check=False,
        timeout=60,
    )


def test_sshd_runs_with_what_is_meant(shared: Machine) -> None:
    said = dict(line.split(" ", 1) for line in shared.exec(["sshd", "-T"]).stdout.splitlines())
    assert {name: said.get(name) for name in EFFECTIVE} == EFFECTIVE


def test_key_logs_in_and_nothing_else_does(shared: Machine) -> None:
    assert login(shared).returncode == 0
    for refused in (login(shared, key=False), login(shared, user="root")):
        assert refused.returncode == 255
        assert "Permission denied (publickey)" in refused.stderr
    password = ("-oPreferredAuthentications=password,keyboard-interactive",)
    assert "Permission denied (publickey)" in login(shared, *password).stderr


@pytest.mark.parametrize("algorithm", WEAK)
def test_weak_algorithm_is_not_spoken(shared: Machine, algorithm: str) -> None:
    options = f"-o{algorithm}".split()
    refused = login(shared, *options)
    assert refused.returncode == 255
    assert "no matching" in refused.stderr


def test_login_is_no_tunnel_past_the_gate(shared: Machine) -> None:
    refused = login(shared, "-W", "127.0.0.1:7997")
    assert refused.returncode != 0
    assert "prohibited" in refused.stderr


def test_crash_leaves_no_core(shared: Machine) -> None:
    crash = "ulimit -c unlimited; cd /tmp && mkdir -p cores && cd cores && sh -c 'kill -ABRT $$'"
    try:
        probe.ssh(shared, crash)
        shared.exec("mkdir -p /tmp/cores && cd /tmp/cores && sh -c 'kill -ABRT $$'", check=False)
        assert shared.exec("ls /tmp/cores").stdout == ""
        assert "0" in probe.ssh(shared, "ulimit -H -c").stdout
        for unit in ("ssh.service", "nginx.service", "infinity.service"):
            assert probe.show(shared, unit, "LimitCORE") == "0"
    finally:
        shared.exec(["rm", "-rf", "/tmp/cores"])  # noqa: S108 - in the machine


def test_no_program_lends_another_users_rights_but_sudo_and_pams_helper(shared: Machine) -> None:
    found = shared.exec("find / -xdev -type f -perm /6000").stdout.split()
    assert sorted(found) == ["/usr/bin/sudo", "/usr/sbin/unix_chkpwd"]
    for command in ("sudo -n true", "su -c true", "mount -t tmpfs x /mnt", "newgrp sudo"):
        assert shared.exec(command, user="nobody", check=False).returncode != 0, command
    assert probe.ssh(shared, "sudo -n id -u").stdout == "0\n"


def test_no_compiler_is_left(shared: Machine) -> None:
    assert shared.exec(f"command -v {COMPILERS}", check=False).stdout == ""
    assert shared.exec("command -v strings").stdout, "needrestart's binutils is what brings them"


def test_files_that_root_makes_are_readable_and_a_users_are_not(shared: Machine) -> None:
    """The services read what the operator makes with sudo."""
    assert probe.ssh(shared, "sudo sh -c umask").stdout == "0022\n"
    assert shared.exec("stat -c %a /home/ubuntu").stdout.strip() == "750"


def test_network_settings_are_in_force(shared: Machine) -> None:
    """Those of the kernel itself are its host's, in a machine that shares one."""
    text = shared.exec(["cat", "/etc/sysctl.d/99-infinity.conf"]).stdout
    lines = [line.lstrip("-") for line in text.splitlines() if " = " in line]
    wanted = dict(line.split(" = ") for line in lines)
    network = [name for name in wanted if name.startswith("net.ipv4.") and "*" not in name]
    assert len(network) > 12
    got = shared.exec(["sysctl", *network]).stdout.splitlines()
    assert dict(line.split(" = ") for line in got) == {name: wanted[name] for name in network}
    interface = shared.exec(["sysctl", "-n", "net.ipv4.conf.host0.rp_filter"]).stdout.strip()
    assert interface == "1"


def test_every_kernel_setting_exists(shared: Machine) -> None:
    """A name that no kernel has would be a control that is none."""
    text = shared.exec(["cat", "/etc/sysctl.d/99-infinity.conf"]).stdout
    names = [line.split(" = ")[0] for line in text.splitlines() if " = " in line]
    must = [name for name in names if not name.startswith("-") and "*" not in name]
    paths = " ".join("/proc/sys/" + name.replace(".", "/") for name in must)
    shared.exec(f"ls {paths}")
    said = shared.exec(["journalctl", "-b", "-u", "systemd-sysctl", "-o", "cat"]).stdout
    assert "Failed to parse" not in said


def test_nginx_would_execute_no_shell(shared: Machine) -> None:
    process = probe.show(shared, "nginx.service", "MainPID")
    enter = ["nsenter", "-t", process, "-m"]
    assert shared.exec([*enter, "/usr/sbin/nginx", "-v"], check=False).returncode == 0
    for program in ("/bin/sh", "/usr/bin/python3", "/usr/bin/curl"):
        refused = shared.exec([*enter, program, "--version"], check=False)
        assert "Permission denied" in refused.stderr, program


def test_apparmor_would_take_the_profiles(shared: Machine) -> None:
    """Compiled for the rules that Ubuntu's kernel has; a local machine's kernel may have none."""
    features = "/etc/apparmor.d/abi/3.0"
    words = ["apparmor_parser", "--skip-kernel-load", "--skip-cache", "--stdout",
             "--policy-features", features, "--kernel-features", features]  # fmt: skip
    for unit in ("infinity.service", "nginx.service"):
        profile = probe.show(shared, unit, "AppArmorProfile").lstrip("-")
        compiled = shared.exec([*words, f"/etc/apparmor.d/{profile}"]).raw_stdout
        assert profile.encode() in compiled
