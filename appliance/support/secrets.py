"""Every secret of this instance, gathered so that it can be kept out."""

from __future__ import annotations

import base64
import errno
import gzip
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from appliance import keys
from appliance.paths import Paths

LARGEST = 1024 * 1024  # bytes of one file
PRIVATE_KEYS = (
    "etc/ssh/ssh_host_*_key",
    "etc/ssl/private/*",
    "etc/letsencrypt/**/privkey*.pem",
    "etc/letsencrypt/keys/*",
    "etc/letsencrypt/accounts/**/private_key.json",
)
USER_DATA = ("var/lib/cloud/instance/user-data.txt", "var/lib/cloud/instance/user-data.txt.i")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_NO_SECRET = frozenset({"INFINITY_HOST", "INFINITY_URL", "INFINITY_MODEL", "INFINITY_USERNAME"})
_SECRET_NAME = re.compile(r"(?i)token|secret|passw|key|credential|auth")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{6,}")
_LONG = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
# A line of user data that is shorter says nothing.
_TELLING = 12


def gather(paths: Paths) -> set[str]:
    """What must not be told. A file that is missing or no text adds nothing."""
    found = set(_credentials(paths)) | set(_key_map(paths)) | set(_logins(paths))
    found |= set(_private_keys(paths)) | set(_environment(paths)) | set(_user_data(paths))
    return {secret for secret in found if secret.strip()}


def regular(path: Path, largest: int) -> bytes:
    """The end of a regular file, at most so many bytes.

    Raises:
        OSError: there is none, or it is a folder, a pipe, a device.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"no regular file ({stat.filemode(found.st_mode)})")
        return os.pread(descriptor, largest, max(0, found.st_size - largest))
    finally:
        os.close(descriptor)


def read(path: Path) -> str:
    """A regular file, whoever links to it; "" where there is none. A pipe does not hold us up."""
    try:
        raw = regular(path, LARGEST)
    except OSError:
        return ""
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)[:LARGEST]
        except (OSError, EOFError):
            return ""
    return raw.decode("utf-8", "surrogateescape")


def _credentials(paths: Paths) -> Iterator[str]:
    for line in read(paths.credentials).splitlines():
        name, _, value = line.partition("=")
        if name.strip() not in _NO_SECRET:
            yield value.strip()
            yield value.strip().strip("\"'")


def _key_map(paths: Paths) -> Iterator[str]:
    """Whatever stands where a key stands, however it is quoted, also those switched off."""
    text = read(paths.api_key_map)
    for words in keys.words(text):
        yield from _TOKEN.findall(re.sub(r"(?i)\bbearer\b", " ", words[0]))
    yield from _LONG.findall(text)


def _logins(paths: Paths) -> Iterator[str]:
    for line in read(paths.htpasswd).splitlines():
        yield line.partition(":")[2]


def _private_keys(paths: Paths) -> Iterator[str]:
    files = [paths.certificate_key]
    for pattern in PRIVATE_KEYS:
        files += paths.root.glob(pattern)
    for file in files:
        text = read(file)
        bodies = _PEM.findall(text)
        yield from bodies
        if not bodies:
            yield from _LONG.findall(text)


def _environment(paths: Paths) -> Iterator[str]:
    for line in read(paths.server_env).splitlines():
        name, _, value = line.partition("=")
        if _SECRET_NAME.search(name):
            yield value.strip().strip("\"'")


def user_data(paths: Paths) -> set[str]:
    """Its telling lines; they are to be matched as a whole."""
    lines = (line.strip() for name in USER_DATA for line in read(paths.root / name).splitlines())
    return {line for line in lines if len(line) >= _TELLING}


def _user_data(paths: Paths) -> Iterator[str]:
    """The words in it that may be secrets: long, of letters and digits; decoded too."""
    for name in USER_DATA:
        for word in _LONG.findall(read(paths.root / name)):
            if re.search(r"\d", word) and re.search(r"[A-Za-z]", word):
                yield word
                yield from _LONG.findall(_decoded(word))


def _decoded(word: str) -> str:
    try:
        return base64.b64decode(word, validate=True).decode("ascii")
    except ValueError:
        return ""
