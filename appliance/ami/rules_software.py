"""No program or permission in the image gives more power than the appliance needs."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from appliance.ami.privileged import CAPABLE, SETGID, SETUID
from appliance.ami.tree import Entry, Finding, Tree

COMPILER = re.compile(
    r"(x86_64-linux-gnu-)?(gcc|g\+\+|cc|c\+\+|c89|c99|cpp|clang|clang\+\+|tcc|rustc|go|gfortran"
    r"|as|ld|ld\.bfd|ld\.gold|gdb|strace|nvcc)(-[\d.]+)?"
)
COMPILER_FOLDERS = ("/usr/bin", "/usr/local/bin", "/usr/local/sbin", "/bin", "/opt", "/usr/lib/gcc")
APPLIANCE_LIB = "/opt/infinity/appliance/lib"
# What a .pth file may do besides adding folders: setuptools' own, which waits for an import of
# distutils, and is the same in every virtual environment.
PTH_CODE = re.compile(
    r"import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, 'local'\) "
    r"== 'local'; enabled and __import__\('_distutils_hack'\)\.add_shim\(\);?"
)
PYTHON_FOLDERS = ("site-packages", "dist-packages")


def setuid(tree: Tree) -> Iterator[Finding]:
    for entry in tree.entries:
        mode = entry.status.st_mode
        if entry.is_file and mode & stat.S_ISUID and _usr(entry) not in SETUID:
            yield Finding("setuid", entry.path, "runs as its owner and is not on the list")
        if entry.is_file and mode & stat.S_ISGID and _usr(entry) not in SETGID | SETUID:
            yield Finding("setuid", entry.path, "runs as its group and is not on the list")


def capabilities(tree: Tree) -> Iterator[Finding]:
    """Files that carry capabilities, which lift their user as setuid does."""
    for entry in tree.entries:
        executable = entry.is_file and entry.status.st_mode & 0o111
        if executable and _usr(entry) not in CAPABLE and _has_capability(tree, entry):
            yield Finding("capabilities", entry.path, "has capabilities and is not on the list")


def _has_capability(tree: Tree, entry: Entry) -> bool:

    try:
        return bool(os.getxattr(f"{tree.root}{entry.path}", "security.capability"))
    except OSError:
        return False


def _usr(entry: Entry) -> str:
    """The path on a system with merged /usr, which all of ours are."""
    return re.sub(r"^/(bin|sbin|lib)/", r"/usr/\1/", entry.path)


def compilers(tree: Tree) -> Iterator[Finding]:
    for entry in tree.below(*COMPILER_FOLDERS):
        runs = entry.is_link or (entry.is_file and entry.status.st_mode & 0o111)
        if runs and COMPILER.fullmatch(entry.name) and "/bin/" in entry.path:
            yield Finding("compilers", entry.path, "builds or takes apart programs")


def world_writable(tree: Tree) -> Iterator[Finding]:
    for entry in tree.entries:
        mode = entry.status.st_mode
        if entry.is_link or not mode & stat.S_IWOTH:
            continue
        if not (entry.is_folder and mode & stat.S_ISVTX):
            yield Finding("world-writable", entry.path, "anyone on the machine may change it")


def pth_files(tree: Tree) -> Iterator[Finding]:
    """A .pth file runs code, or adds a folder of code, at each start of its Python."""
    for entry in tree.entries:
        folder = entry.path.split("/")[-2]
        if not entry.name.endswith(".pth") or folder not in PYTHON_FOLDERS:
            continue
        for line in tree.lines(entry.path):
            harmless = not line.strip() or line.startswith("#") or PTH_CODE.fullmatch(line.strip())
            if not harmless and line.strip() != APPLIANCE_LIB:
                yield Finding("pth-files", entry.path, f"adds {line.strip()[:80]!r} to every start")
    for entry in tree.entries:
        customizes = entry.name in {"sitecustomize.py", "usercustomize.py"}
        if customizes and entry.status.st_size and not _distribution(entry):
            yield Finding("pth-files", entry.path, "runs at every start of Python")


def _distribution(entry: Entry) -> bool:
    """Ubuntu and Debian link one that loads apport's hook, or is a comment only."""
    return entry.below("/usr/lib/python3", "/etc/python3") or bool(
        re.fullmatch(r"/(usr/lib|etc)/python3\.\d+/sitecustomize\.py", entry.path)
    )


def owners(tree: Tree) -> Iterator[Finding]:
    """A file of a user who does not exist becomes the next new user's."""
    users = {line.split(":")[2] for line in tree.lines("/etc/passwd") if line.count(":") > 2}  # noqa: PLR2004
    groups = {line.split(":")[2] for line in tree.lines("/etc/group") if line.count(":") > 2}  # noqa: PLR2004
    for entry in tree.entries:
        if str(entry.status.st_uid) not in users:
            yield Finding("owners", entry.path, f"belongs to no user ({entry.status.st_uid})")
        elif str(entry.status.st_gid) not in groups:
            yield Finding("owners", entry.path, f"belongs to no group ({entry.status.st_gid})")


def devices(tree: Tree) -> Iterator[Finding]:
    for entry in tree.entries:
        mode = entry.status.st_mode
        if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
            yield Finding("devices", entry.path, "is a device outside /dev")


RULES = (setuid, capabilities, compilers, world_writable, pth_files, owners, devices)
