"""No secret is in the image: each instance makes its own, or gets it from its operator."""

from __future__ import annotations

import re
from collections.abc import Iterator

from appliance.ami.tree import Entry, Finding, Tree
from appliance.paths import Paths

PRIVATE_KEY = re.compile(
    rb"^-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----\r?\n"
    rb"(?:[A-Za-z-]+: .*\r?\n)*\r?\n?[A-Za-z0-9+/=]{16}",
    re.MULTILINE,
)
PUTTY_KEY = re.compile(rb"\APuTTY-User-Key-File-\d")
KEY_NAMES = re.compile(
    r"id_(rsa|dsa|ecdsa|ed25519)(_sk)?|.+\.(p12|pfx|jks|ppk|kdbx|keytab)|krb5\.keytab"
)
CREDENTIAL_FILES = re.compile(
    r".*/(\.aws/(credentials|config|sso/.*|cli/cache/.*)|\.netrc|\.git-credentials|\.pypirc|\.npmrc"
    r"|\.docker/config\.json|\.config/(gh|gcloud|pip)/.*|\.pgpass|\.boto|\.kube/config"
    r"|huggingface/(token|stored_tokens))"
)
# Where people and programs leave what they were given. Packages' own folders are left out: their
# documentation is full of examples.
CONFIGURED = ("/etc", "/root", "/home", "/var", "/srv", "/usr/local", "/opt/infinity/appliance/lib")
SHAPES = {
    "an API key of an instance": re.compile(rb"\binf-[0-9a-f]{48}\b"),
    "a bcrypt hash": re.compile(rb"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}"),
    "a crypt hash": re.compile(rb"[:\s]\$(?:y|gy|7|6|5|1)\$[^\s:$]*\$[^\s:]{20,}"),
    "an AWS access key": re.compile(rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a Hugging Face token": re.compile(rb"\bhf_[A-Za-z0-9]{34,}\b"),
    "a GitHub token": re.compile(rb"\bgh[pousr]_[A-Za-z0-9]{36}\b"),
    "a URL with a password": re.compile(
        rb"\bhttps?://[^\s/:@\"'<>{}%$]+:[^\s/@\"'<>{}%$]+@[\w.-]+"
    ),
}


def host_keys(tree: Tree) -> Iterator[Finding]:
    for entry in tree.below("/etc/ssh"):
        if entry.name.startswith("ssh_host_"):
            yield Finding("host-keys", entry.path, "every instance would have this host key")


def private_keys(tree: Tree) -> Iterator[Finding]:
    """By content anywhere, and by name where the content would not tell."""
    for entry in tree.texts:
        if KEY_NAMES.fullmatch(entry.name):
            yield Finding("private-key", entry.path, "is named as a private key")
        elif _is_private_key(tree.content(entry)):
            yield Finding("private-key", entry.path, "holds a private key")


def _is_private_key(raw: bytes) -> bool:
    pem = b"PRIVATE KEY" in raw and PRIVATE_KEY.search(raw)
    return bool(pem or PUTTY_KEY.match(raw))


def snakeoil(tree: Tree) -> Iterator[Finding]:
    for entry in tree.entries:
        if entry.below("/etc/ssl/private") or entry.name.startswith("ssl-cert-snakeoil"):
            yield Finding("snakeoil", entry.path, "a certificate or key that all instances share")


def credential_files(tree: Tree) -> Iterator[Finding]:
    for entry in tree.below("/root", "/home", "/etc", "/var", "/srv", "/opt"):
        if entry.is_file and CREDENTIAL_FILES.fullmatch(entry.path):
            yield Finding("credentials", entry.path, "holds somebody's credentials")


def secret_shapes(tree: Tree) -> Iterator[Finding]:
    """Text that has the shape of a secret, in what was configured or left."""
    for entry in tree.texts:
        if not entry.below(*CONFIGURED):
            continue
        raw = tree.content(entry)
        for what, shape in SHAPES.items():
            if shape.search(raw):
                yield Finding("secret", entry.path, f"holds {what}")


def own_identity(tree: Tree) -> Iterator[Finding]:
    """What first boot and the operator's commands write, before anybody has booted."""
    paths = Paths()
    files = {
        str(path)
        for path in (paths.credentials, paths.certificate, paths.certificate_key, paths.api_key_map)
    } | {str(path) for path in (paths.htpasswd, paths.nginx_site, paths.hostname)}
    acme = ("accounts", "archive", "csr", "keys", "live", "renewal")
    folders = (
        str(paths.state),
        str(paths.certificate.parent),
        "/var/lib/infinity-acme",
        *(f"/etc/letsencrypt/{name}" for name in acme),
    )
    for entry in tree.entries:
        if entry.path in files or (entry.below(*folders) and not entry.is_folder) or _stray(entry):
            yield Finding("own-identity", entry.path, "belongs to one instance")


def _stray(entry: Entry) -> bool:
    """A copy or half-written file of ours, such as .infinity.key.x1.new or infinity.key~."""
    ours = ("infinity-credentials", "infinity-apikey", ".infinity.htpasswd", ".infinity.key")
    return entry.is_file and entry.below("/root", "/etc") and entry.name.lstrip(".").startswith(
        tuple(name.lstrip(".") for name in ours)
    )  # fmt: skip


RULES = (host_keys, private_keys, snakeoil, credential_files, secret_shapes, own_identity)
