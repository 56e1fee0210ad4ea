"""The scanner of images: each violation planted in a small root is caught under its rule's name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.ami import __main__, check, sshd
from appliance.ami.tree import Tree
from appliance.errors import ApplianceError

# In two parts, so that this file is no finding of anybody's scanner.
PEM = "-----BEGIN {kind}PRIVATE KEY" + "-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIB\n"
BCRYPT = "$2y$05$" + "abcdefghijklmnopqrstuv" * 2 + "abcdefghi"
GOOD_SSHD = {option: values[0] for option, values in sshd.WANTED.items()}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As clean.sh leaves a disk."""
    made = tmp_path / "root"
    uid, gid = os.getuid(), os.getgid()
    files = {
        "etc/passwd": f"root:x:0:0:root:/root:/bin/bash\nme:x:{uid or 7}:{gid}::/:/bin/false\n",
        "etc/group": f"root:x:0:\nme:x:{gid or 7}:\n",
        "etc/shadow": "root:!:20000:0:99999:7:::\ndaemon:*:20000:0:99999:7:::\nubuntu:!::::::\n",
        "etc/gshadow": "root:*::\nsudo:!::ubuntu\n",
        "etc/machine-id": "",
        "etc/ssh/sshd_config": "Include /etc/ssh/sshd_config.d/*.conf\n",
        "root/.bashrc": "alias ll='ls -l'\n",
        "var/log/README": "the logs are in the journal\n",
        "var/log/wtmp": "",
        "usr/bin/sudo": "#!/bin/sh\n",
        "usr/lib/python3/dist-packages/none.py": "",
        "opt/infinity/venv/lib/python3.12/site-packages/appliance.pth": (
            "/opt/infinity/appliance/lib\n"
        ),
    }
    for name, text in files.items():
        _write(made, name, text)
    (made / "usr/bin/sudo").chmod(0o4755)
    (made / "tmp").mkdir()
    (made / "tmp").chmod(0o1777)
    (made / "proc").mkdir()
    _write(made, "proc/kcore", PEM)
    (made / "var/lib/dbus").mkdir(parents=True)
    (made / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    monkeypatch.setattr(sshd, "effective", lambda _: dict(GOOD_SSHD))
    return made


def _write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)
    return path


def names(root: Path) -> list[tuple[str, str]]:
    return [(finding.rule, finding.path) for finding in check.check(root)]


def test_a_clean_root_has_no_finding(root: Path) -> None:
    assert check.check(root) == []


PLANTED = [
    ("authorized-keys", "root/.ssh/authorized_keys", "ssh-ed25519 AAAA build\n"),
    ("authorized-keys", "home/ubuntu/.ssh/authorized_keys2", "ssh-ed25519 AAAA build\n"),
    ("authorized-keys", "etc/ssh/authorized_keys.d/ubuntu", None),
    ("password-hash", "etc/shadow-", "ubuntu:$y$j9T$salt$hashhashhash:20000::::::\n"),
    ("password-hash", "etc/security/opasswd", "ubuntu:1000:1:$6$salt$hash\n"),
    ("host-keys", "etc/ssh/ssh_host_ed25519_key", "x"),
    ("host-keys", "etc/ssh/ssh_host_rsa_key.pub", "ssh-rsa AAAA\n"),
    ("private-key", "usr/share/doc/x/server.txt", "# a key\n" + PEM.format(kind="")),
    ("private-key", "srv/k", PEM.format(kind="RSA ")),
    ("private-key", "opt/k", PEM.format(kind="OPENSSH ")),
    ("private-key", "opt/legacy", PEM.format(kind="EC ").replace(
        "\nMII", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nMII")),
    ("private-key", "home/ubuntu/store.p12", "x"),
    ("private-key", "root/.ssh/id_ed25519", "x"),
    ("snakeoil", "etc/ssl/private/ssl-cert-snakeoil.key", "x"),
    ("snakeoil", "etc/ssl/certs/ssl-cert-snakeoil.pem", "x"),
    ("credentials", "root/.aws/credentials", "[default]\n"),
    ("credentials", "home/ubuntu/.netrc", "machine x\n"),
    ("credentials", "root/.cache/huggingface/token", "x"),
    ("secret", "var/lib/x/state", f"key=inf-{'0a' * 24}\n"),
    ("secret", "etc/default/x", f"LOGIN=admin:{BCRYPT}\n"),
    ("secret", "etc/default/y", "ubuntu:$6$salt$" + "h" * 86 + "\n"),
    ("secret", "usr/local/etc/x", "id = AKIA" + "A" * 16 + "\n"),
    ("secret", "etc/pip.conf", "[global]\nindex-url = https://me:word@pypi.example/simple\n"),
    ("own-identity", "root/infinity-credentials.txt", "INFINITY_HOST=x\n"),
    ("own-identity", "etc/ssl/infinity/infinity.crt", "x"),
    ("own-identity", "etc/nginx/infinity-apikey.map", "x"),
    ("own-identity", "etc/nginx/.infinity.htpasswd", "x"),
    ("own-identity", "etc/nginx/.infinity-apikey.map.q1.new", "x"),
    ("own-identity", "etc/nginx/infinity-site.conf", "x"),
    ("own-identity", "etc/cloudimg/infinity-hostname", "x"),
    ("own-identity", "var/lib/infinity-appliance/instance.json", "{}"),
    ("own-identity", "etc/letsencrypt/accounts/a/regr.json", "{}"),
    ("own-identity", "etc/letsencrypt/renewal/a.conf", "x"),
    ("own-identity", "var/lib/infinity-acme/webroot/x", "x"),
    ("machine-id", "etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    ("hostname", "etc/hostname", "ip-10-0-0-1\n"),
    ("shell-history", "root/.bash_history", "aws configure\n"),
    ("shell-history", "home/ubuntu/.python_history", "x\n"),
    ("home-leftovers", "root/.ssh/known_hosts", "x"),
    ("home-leftovers", "home/ubuntu/.cache/pip/x", "x"),
    ("home-leftovers", "etc/shadow-", ""),
    ("logs", "var/log/auth.log", "Accepted publickey for ubuntu\n"),
    ("logs", "var/log/journal/0123/system.journal", "x"),
    ("temporary", "tmp/script_1234.sh", "x"),
    ("temporary", "var/tmp/x", "x"),
    ("mail-and-jobs", "var/mail/root", "x"),
    ("mail-and-jobs", "var/spool/cron/crontabs/root", "* * * * * x\n"),
    ("leases", "var/lib/dhcp/dhclient.ens5.leases", "x"),
    ("leases", "etc/netplan/50-cloud-init.yaml", "x"),
    ("cloud-init-state", "var/lib/cloud/seed/nocloud/user-data", "x"),
    ("cloud-init-state", "var/lib/cloud/instances/i-0/obj.pkl", "x"),
    ("seeds", "var/lib/systemd/random-seed", "x"),
    ("seeds", "var/lib/systemd/credential.secret", "x"),
    ("agent-state", "var/lib/amazon/ssm/Vault/Store/RegistrationKey", "x"),
    ("package-cache", "var/cache/apt/archives/nginx.deb", "x"),
    ("build-leftovers", "usr/sbin/policy-rc.d", "exit 101\n"),
    ("memory", "swapfile", "x"),
    ("pth-files", "opt/infinity/venv/lib/python3.12/site-packages/x.pth", "import os\n"),
    ("pth-files", "usr/lib/python3/dist-packages/x.pth", "/srv/code\n"),
    ("pth-files", "opt/infinity/venv/lib/python3.12/site-packages/sitecustomize.py", "x = 1\n"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED, ids=[f"{r}-{p}" for r, p, _ in PLANTED])
def test_what_may_not_be_in_an_image_is_caught_by_name(
    root: Path, rule: str, path: str, text: str | None
) -> None:
    if text is None:
        path = f"{path}/authorized_keys"
        text = "ssh-ed25519 AAAA build\n"
    _write(root, path, text)
    assert (rule, f"/{path}") in names(root)


def _shadow(root: Path, line: str) -> None:
    path = root / "etc/shadow"
    path.write_text(path.read_text().replace("ubuntu:!::::::", line))


CHANGED: list[tuple[str, str, Callable[[Path], object]]] = [
    ("password-hash", "/etc/shadow", lambda root: _shadow(root, "ubuntu:$6$s$h::::::")),
    ("password-hash", "/etc/shadow", lambda root: _shadow(root, "ubuntu:!$6$s$h::::::")),
    ("password-hash", "/etc/shadow", lambda root: _shadow(root, "ubuntu:::::::")),
    ("password-hash", "/etc/passwd", lambda root: _write(root, "etc/passwd", "x::0:0::/:/\n")),
    ("root-locked", "/etc/shadow", lambda root: _write(root, "etc/shadow", "root:x::::::\n")),
    ("root-locked", "/etc/shadow", lambda root: (root / "etc/shadow").unlink()),
    ("root-locked", "/etc/passwd", lambda root: _write(root, "etc/passwd", "toor:x:0:0::/:/\n")),
    ("machine-id", "/etc/machine-id", lambda root: (root / "etc/machine-id").unlink()),
    ("setuid", "/usr/bin/sh2", lambda root: _write(root, "usr/bin/sh2", "x").chmod(0o4755)),
    ("setuid", "/bin/sh2", lambda root: _write(root, "bin/sh2", "x").chmod(0o2755)),
    ("compilers", "/usr/bin/gcc-13", lambda root: _write(root, "usr/bin/gcc-13", "x").chmod(0o755)),
    ("compilers", "/usr/bin/cc", lambda root: (root / "usr/bin/cc").symlink_to("gcc-13")),
    ("compilers", "/usr/bin/x86_64-linux-gnu-ld", lambda root: _write(
        root, "usr/bin/x86_64-linux-gnu-ld", "x").chmod(0o755)),
    ("world-writable", "/etc/x", lambda root: _write(root, "etc/x", "x").chmod(0o666)),
    ("world-writable", "/var", lambda root: (root / "var").chmod(0o777)),
    ("owners", "/etc/shadow", lambda root: _write(root, "etc/passwd", "root:x:4242:0::/:/\n")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "path", "change"), CHANGED)
def test_what_was_opened_is_caught_by_name(
    root: Path, rule: str, path: str, change: Callable[[Path], object]
) -> None:
    change(root)
    assert (rule, path) in names(root)


@pytest.mark.parametrize("option", sshd.WANTED)
def test_an_sshd_that_lets_in_more_is_caught(
    root: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr(sshd, "effective", lambda _: GOOD_SSHD | {option: "yes"})
    (finding,) = check.check(root)
    assert finding.rule == "sshd"
    assert option in finding.why


def test_an_sshd_that_cannot_be_asked_is_a_finding(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert ("sshd", "/usr/sbin/sshd") in names(root)


def test_links_are_followed_as_the_instance_would_and_never_out_of_the_root(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("root::0\n")
    (root / "etc/shadow").unlink()
    (root / "etc/shadow").symlink_to("../../../../../../../etc/real")
    _write(root, "etc/real", "root:!:::::\n")
    assert check.check(root) == []
    (root / "etc/shadow").unlink()
    (root / "etc/shadow").symlink_to(tmp_path / "outside")
    assert ("root-locked", "/etc/shadow") in names(root)


def test_a_circle_of_links_ends(root: Path) -> None:
    (root / "etc/a").symlink_to("b")
    (root / "etc/b").symlink_to("a")
    assert Tree(root).read("/etc/a") is None


def test_the_command_says_what_and_where_and_fails(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["ami", "check", str(root)])
    assert __main__.main() == 0
    _write(root, "root/.bash_history", "x\n")
    assert __main__.main() == 1
    assert "shell-history: /root/.bash_history: " in capsys.readouterr().out


def test_a_folder_that_holds_no_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ApplianceError, match="no root filesystem"):
        check.check(tmp_path)
