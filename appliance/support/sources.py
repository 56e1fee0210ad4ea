"""What goes into a support archive: the name of each file, and where its text comes from."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from appliance import keys
from appliance.errors import ApplianceError
from appliance.paths import Paths
from appliance.run import run
from appliance.status.units import NAMES
from appliance.support.secrets import regular

LONGEST = 2 * 1024 * 1024  # characters of one file; the end is kept
PATIENCE = 20.0  # seconds for one command
JOURNALS = (*NAMES[:-1], "infinity-restore.service", "infinity-updates.service", "ssh.service")
VENVS = ("opt/infinity/venv", "opt/infinity/appliance/venv")

# Never cloud-init's logs and data: they hold the user data. Never command lines of processes.
_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "units/states.txt": ("systemctl", "list-units", "--all", "--no-pager", "--plain", "--full"),
    "units/failed.txt": ("systemctl", "status", "--failed", "--no-pager", "--full", "--lines=20"),
    "units/properties.txt": ("systemctl", "show", *NAMES),
    "units/boot.txt": ("systemd-analyze", "critical-chain", "--no-pager", "nginx.service"),
    "journal/warnings.txt": ("journalctl", "-b", "-p", "warning", "-n", "1000", "--no-pager"),
    "journal/kernel.txt": ("journalctl", "-b", "-k", "-n", "1000", "--no-pager"),
    "nginx/configuration.txt": ("nginx", "-T"),
    "nginx/version.txt": ("nginx", "-V"),
    "versions/packages.txt": ("dpkg-query", "-W"),
    "versions/kernel.txt": ("uname", "-a"),
    "system/disks.txt": ("df", "-h"),
    "system/inodes.txt": ("df", "-i"),
    "system/mounts.txt": ("findmnt", "--real"),
    "system/listening.txt": ("ss", "-tulnp"),
    "system/addresses.txt": ("ip", "-brief", "address"),
    "system/processes.txt": ("ps", "-eo", "pid,user,rss,etimes,stat,comm", "--sort=-rss"),
}
_TAILS = ("var/log/nginx/access.log", "var/log/nginx/error.log")
_KERNEL = ("proc/meminfo", "proc/loadavg", "proc/pressure/memory", "proc/pressure/cpu")

Source = Callable[[], str]


def sources(paths: Paths) -> dict[str, Source]:
    """Every file of the archive but the report and the manifest."""
    found: dict[str, Source] = {name: _command(argv) for name, argv in _COMMANDS.items()}
    for unit in JOURNALS:
        argv = ("journalctl", "-u", unit, "-n", "3000", "--no-pager", "--output=short-iso")
        found[f"journal/{unit}.txt"] = _command(argv)
    for name in (*_TAILS, *_KERNEL):
        found[f"system/{Path(name).name}.txt"] = _file(paths.root / name)
    for path in _rendered(paths):
        found[f"files/{path.relative_to(paths.root)}"] = _file(path)
    found["files/keys.txt"] = lambda: _key_names(paths)
    found["files/modes.txt"] = lambda: _modes(paths)
    for venv in VENVS:
        found[f"versions/{venv.replace('/', '-')}.txt"] = _distributions(paths.root / venv)
    return found


def _rendered(paths: Paths) -> tuple[Path, ...]:
    return (
        paths.server_env,
        paths.nginx_site,
        paths.hostname,
        paths.settings,
        paths.stamp,
        paths.change,
        paths.root / "etc/os-release",
    )


def _shown_by_mode_alone(paths: Paths) -> tuple[Path, ...]:
    return (
        paths.credentials,
        paths.api_key_map,
        paths.htpasswd,
        paths.certificate_key,
        paths.certificate,
    )


def _command(argv: tuple[str, ...]) -> Source:
    def said() -> str:
        done = run(argv, check=False, timeout=PATIENCE)
        return done.stdout + done.stderr

    return said


def _file(path: Path) -> Source:
    """A regular file. A link is told and not followed: it may lead anywhere."""

    def text() -> str:
        if path.is_symlink() and path.parent != Path("/etc"):  # os-release is one
            return f"a symbolic link to {os.readlink(path)}, not followed\n"
        return regular(path, LONGEST).decode("utf-8", "replace")

    return text


def _key_names(paths: Paths) -> str:
    listed = keys.parse(paths.api_key_map.read_text("utf-8", "replace"))
    return "".join(f"{key.name} {key.fingerprint} until {key.until}\n" for key in listed)


def _modes(paths: Paths) -> str:
    lines = []
    for path in (*_rendered(paths), *_shown_by_mode_alone(paths)):
        try:
            found = path.lstat()
        except OSError as error:
            lines.append(f"{path}: {error.strerror}")
            continue
        lines.append(
            f"{stat.filemode(found.st_mode)} {found.st_uid}:{found.st_gid} "
            f"{found.st_size:>8} {path}"
        )
    return "\n".join(lines) + "\n"


def _distributions(venv: Path) -> Source:
    def listed() -> str:
        folders = [str(path) for path in venv.glob("lib/python*/site-packages")]
        found = {f"{each.name}=={each.version}" for each in metadata.distributions(path=folders)}
        if not found:
            raise ApplianceError(f"There are no packages in {venv}.")
        return "\n".join(sorted(found, key=str.lower)) + "\n"

    return listed
