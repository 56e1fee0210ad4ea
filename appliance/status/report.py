"""What `infinity-status` knows, as values. `docs/status.schema.json` describes them as JSON.

Names and types only grow: a field that is there stays and keeps its meaning. A part that could
not be found out is None, and ``unknown`` says why.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

SCHEMA = 1


@dataclass(frozen=True)
class Instance:
    """``id`` is the one that this identity was made for."""

    id: str | None
    type: str | None
    metadata_id: str | None  # as the metadata service says now


@dataclass(frozen=True)
class Host:
    name: str
    url: str
    aliases: tuple[str, ...]
    follows_metadata: bool


@dataclass(frozen=True)
class Certificate:
    """``maker`` is "instance" (self-signed by first boot or a command) or "operator"."""

    subject: str
    issuer: str
    not_before: str
    not_after: str
    days_left: int
    maker: str
    covers_host: bool
    key_matches: bool


@dataclass(frozen=True)
class Served:
    id: str
    capabilities: tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """``configured`` is the first name clients use; ``state`` is ready, loading or down."""

    configured: str | None
    served: tuple[Served, ...]
    state: str


@dataclass(frozen=True)
class FirstBoot:
    """``result`` is success, failed, running or never."""

    result: str
    finished: str | None
    seconds: float | None
    said: str


@dataclass(frozen=True)
class Gate:
    """What was tried on nginx: None where that could not be tried."""

    running: bool
    answers: bool | None
    refuses_strangers: bool | None
    accepts_key: bool | None
    said: str


@dataclass(frozen=True)
class Listener:
    protocol: str
    address: str
    port: int
    process: str
    beyond_loopback: bool
    expected: bool


@dataclass(frozen=True)
class Reach:
    """``verdict`` is blocked, open or "no route"."""

    address: str
    verdict: str


@dataclass(frozen=True)
class Login:
    """``users`` are those with a password that nginx accepts."""

    enabled: bool
    users: tuple[str, ...]


@dataclass(frozen=True)
class ApiKey:
    """``until`` is the end of its grace period, if it is in one."""

    name: str
    until: str | None


@dataclass(frozen=True)
class ApiKeys:
    """``unread`` counts lines of the map that may let others in, such as patterns."""

    count: int
    keys: tuple[ApiKey, ...]
    unread: int


@dataclass(frozen=True)
class CredentialsFile:
    """``untrue`` names the entries that are not what this instance accepts."""

    present: bool
    untrue: tuple[str, ...]


@dataclass(frozen=True)
class Requests:
    """Of the server since its start; times in milliseconds, None before the first request."""

    since: str
    total: int
    succeeded: int
    refused: int
    failed: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class GateLog:
    """Of the newest lines of nginx's access log, at most 512 KiB."""

    since: str
    total: int
    unauthorized: int
    failed: int


@dataclass(frozen=True)
class Disk:
    """Bytes."""

    path: str
    size: int
    free: int
    inodes_free_percent: int


@dataclass(frozen=True)
class Memory:
    """Bytes; ``server_limit`` is None where nothing limits it but the machine."""

    size: int
    available: int
    server: int | None
    server_limit: int | None


@dataclass(frozen=True)
class Updates:
    """``security`` is None until it has been counted; ``waiting_hours`` since when it is not 0."""

    security: int | None
    counted: str | None
    waiting_hours: float | None
    reboot_required: bool


@dataclass(frozen=True)
class Unit:
    """``said`` is the last line of a unit that failed."""

    name: str
    active: str
    sub: str
    result: str
    restarts: int
    since: str | None
    said: str


@dataclass(frozen=True)
class Unknown:
    part: str
    reason: str


@dataclass(frozen=True)
class Problem:
    """``command`` mends it, or shows what to mend."""

    what: str
    command: str


@dataclass(frozen=True)
class Parts:
    """Everything that was looked at."""

    instance: Instance | None = None
    host: Host | None = None
    certificate: Certificate | None = None
    model: Model | None = None
    first_boot: FirstBoot | None = None
    gate: Gate | None = None
    ports: tuple[Listener, ...] | None = None
    egress: tuple[Reach, ...] | None = None
    login: Login | None = None
    api_keys: ApiKeys | None = None
    credentials_file: CredentialsFile | None = None
    requests: Requests | None = None
    gate_log: GateLog | None = None
    disks: tuple[Disk, ...] | None = None
    memory: Memory | None = None
    updates: Updates | None = None
    units: tuple[Unit, ...] | None = None
    change_pending: bool | None = None
    unknown: tuple[Unknown, ...] = ()

    def why_unknown(self, part: str) -> str:
        return next((each.reason for each in self.unknown if each.part == part), "")


@dataclass(frozen=True)
class Status:
    """``time`` is when it was taken, in UTC."""

    time: str
    parts: Parts
    problems: tuple[Problem, ...]

    @property
    def healthy(self) -> bool:
        return not self.problems

    def as_json(self) -> str:
        """The document that `infinity-status --json` prints."""
        document = {
            "schema": SCHEMA,
            "time": self.time,
            "healthy": self.healthy,
            "problems": [dataclasses.asdict(problem) for problem in self.problems],
            **dataclasses.asdict(self.parts),
        }
        return json.dumps(document, indent=2, ensure_ascii=True) + "\n"
