"""systemd-analyze verify on the units, in a root where only what they name exists."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lint_tools import REPO, tool

from appliance.run import run

PROGRAMS = (
    "bin/sh",
    "bin/systemctl",
    "opt/infinity/venv/bin/python",
    "opt/infinity/appliance/venv/bin/python",
    "usr/sbin/nginx",
    "sbin/start-stop-daemon",
)
TARGETS = ("sysinit", "shutdown", "network-online", "remote-fs", "nss-lookup")
EARLY = ("sockets", "paths", "timers")  # basic.target waits for them, and services for it

PRESET = REPO / "systemd/system-preset/50-infinity.preset"

# The distributions' nginx.service, as far as ordering and start go.
NGINX = """[Unit]
After=network-online.target remote-fs.target nss-lookup.target
Wants=network-online.target
[Service]
Type=forking
PIDFile=/run/nginx.pid
ExecStart=/usr/sbin/nginx
[Install]
WantedBy=multi-user.target
"""

# cloud-init's units, as far as ordering goes; the second is how later releases name the first.
CLOUD_INIT = """[Unit]
DefaultDependencies=no
Before=network-online.target sshd.service
Before=shutdown.target
[Service]
Type=oneshot
ExecStart=/usr/sbin/nginx
"""
CLOUD_INIT_TARGET = """[Unit]
Wants=cloud-init.service
After=multi-user.target cloud-init.service
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    units = tmp_path / "usr/lib/systemd/system"
    shutil.copytree(REPO / "systemd/system", units)
    for name in PROGRAMS:
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    for name in TARGETS:
        (units / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    enabled = [line.split()[1] for line in PRESET.read_text().splitlines() if line[0] == "e"]
    for name in EARLY:
        early_units = [unit for unit in enabled if unit.endswith(f".{name.removesuffix('s')}")]
        (units / f"{name}.target").write_text(
            f"[Unit]\nDefaultDependencies=no\nWants={' '.join(early_units)}\n"
        )
    early = " ".join(f"{name}.target" for name in EARLY)
    (units / "basic.target").write_text(
        f"[Unit]\nRequires=sysinit.target\nWants={early}\nAfter=sysinit.target {early}\n"
    )
    (units / "nginx.service").write_text(NGINX)
    for name in ("cloud-init", "cloud-init-network"):
        (units / f"{name}.service").write_text(CLOUD_INIT)
    (units / "cloud-init.target").write_text(CLOUD_INIT_TARGET)
    wanted = " ".join([*enabled, "cloud-init.target"])
    (units / "multi-user.target").write_text(
        f"[Unit]\nRequires=basic.target\nAfter=basic.target\nWants={wanted}\n"
    )
    return tmp_path


def complaints(root: Path) -> list[str]:
    """All that systemd says about our units, alone and together as a boot starts them."""
    program = tool("systemd-analyze", "apt-get install systemd")
    ours = sorted(p.name for p in (REPO / "systemd/system").iterdir() if p.is_file())
    units = [*ours, "nginx.service", "multi-user.target"]
    done = run([program, "verify", "--man=no", f"--root={root}", *units], check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return [*said, *([f"status {done.returncode}"] if done.returncode else [])]


def test_systemd_has_nothing_to_say(root: Path) -> None:
    said = complaints(root)
    assert said == [], "\n".join(said)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("infinity.service", "MemoryMax=", "MemoryMost=", "MemoryMost"),
        ("infinity-model.service", "/opt/infinity/venv", "/opt/absent", "not executable"),
        ("infinity-firstboot.service", "Type=oneshot", "Type=once", "once"),
        (
            "infinity-firstboot.service",
            "After=cloud-init.service",
            "After=cloud-init.target",
            "cycle",
        ),
        ("nginx.service.d/10-infinity.conf", "Restart=", "Restrt=", "Restrt"),
        (
            "infinity-restore.path",
            "[Path]",
            "After=infinity-firstboot.service\n[Path]",
            "cycle",
        ),
    ],
)
def test_a_mistake_in_a_unit_is_noticed(
    root: Path, file: str, old: str, new: str, said: str
) -> None:
    path = root / "usr/lib/systemd/system" / file
    text = path.read_text()
    assert old in text
    if said == "cycle":
        text += "\n[Install]\nWantedBy=multi-user.target\n"
        target = path.parent / "multi-user.target"
        target.write_text(target.read_text() + "After=infinity-firstboot.service\n")
    path.write_text(text.replace(old, new))
    assert any(said in line for line in complaints(root))
