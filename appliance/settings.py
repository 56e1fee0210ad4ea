"""What is served and where: chosen by the operator, or implied by the facts."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from appliance import names, server_env
from appliance.errors import ApplianceError
from appliance.facts import Facts
from appliance.paths import Paths

DEFAULT_MODEL_HINT = "Set MODEL=owner/name in it, as the user guide's step 10 shows."


@dataclass(frozen=True)
class Ports:
    """TCP ports: nginx's two, and the server's on loopback."""

    https: int = 443
    http: int = 80
    upstream: int = 7997


@dataclass(frozen=True)
class Settings:
    """Everything the rendered files depend on but the secrets.

    ``hostname`` and ``aliases`` are in the form of ``names.normal``. ``followed`` means that
    the name came from metadata and follows the instance.
    """

    hostname: str
    model: str
    followed: bool
    aliases: tuple[str, ...] = ()
    ports: Ports = Ports()
    ipv6: bool = True

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every name that is served, the one to tell first."""
        return (self.hostname, *self.aliases)

    @property
    def url(self) -> str:
        port = "" if self.ports.https == 443 else f":{self.ports.https}"  # noqa: PLR2004
        return f"https://{self.hostname}{port}/"


def choose(
    facts: Facts, paths: Paths, ports: Ports, *, ipv6: bool, previous: Settings | None
) -> Settings:
    """Decide the settings of this boot.

    The operator's host name wins; then what metadata says now; then, where metadata is
    silent, the name that was served before.

    Raises:
        ApplianceError: there is no name to serve, or a name or the model line is unusable.
    """
    chosen = operator_hostname(paths.hostname)
    name = chosen or facts.best_name
    followed = chosen is None
    if name is None and previous is not None:
        name, followed = previous.hostname, previous.followed
    if name is None:
        why = (
            facts.problem.message if facts.problem else "Instance metadata has no name or address."
        )
        raise ApplianceError(
            f"There is no host name to serve. {why}",
            f"Write a DNS name into {paths.hostname}, or mend the metadata service, "
            "then run `systemctl start infinity-firstboot`.",
        )
    return Settings(
        hostname=name,
        model=configured_model(paths.server_env),
        followed=followed,
        aliases=tuple(alias for alias in previous.aliases if alias != name) if previous else (),
        ports=ports,
        ipv6=ipv6,
    )


def operator_hostname(path: Path) -> str | None:
    """The name that the operator wrote down, or None."""
    try:
        written = path.read_text("utf-8-sig")  # an editor may have put a byte order mark first
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ApplianceError(
            f"{path} cannot be read.", "It holds one host name as text."
        ) from error
    lines = [line.strip() for line in written.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        return None
    if len(lines) > 1:
        raise ApplianceError(f"{path} has more than one line.", "It holds one host name.")
    try:
        return names.normal(lines[0])
    except ApplianceError as error:
        raise ApplianceError(f"{path}: {error.message}", error.hint) from error


def configured_model(path: Path) -> str:
    """What clients call the first model: its served name, else its id without the revision."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ApplianceError(f"{path} cannot be read.", DEFAULT_MODEL_HINT) from error
    values = server_env.values(text)
    models, served = (
        [part.strip() for part in values.get(key, "").split(";") if part.strip()]
        for key in ("MODEL", "INFINITY_SERVED_MODEL_NAME")
    )
    if not models:
        raise ApplianceError(f"{path} names no model.", DEFAULT_MODEL_HINT)
    return served[0] if served else models[0].partition("@")[0]


def load(paths: Paths) -> Settings | None:
    """The settings of the last boot; None when there are none that can be used.

    Fields that another release has written are passed over.

    Raises:
        ApplianceError: a name in them is not one, or the file cannot be read.
    """
    try:
        raw = json.loads(paths.settings.read_text("utf-8"))
        saved = Settings(
            hostname=names.normal(raw["hostname"]),
            model=str(raw["model"]),
            followed=bool(raw["followed"]),
            aliases=tuple(names.normal(alias) for alias in raw["aliases"]),
            ports=Ports(*(int(raw["ports"][port]) for port in ("https", "http", "upstream"))),
            ipv6=bool(raw["ipv6"]),
        )
    except FileNotFoundError:
        return None
    except ApplianceError as error:
        raise ApplianceError(f"{paths.settings}: {error.message}", error.hint) from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None  # not whole: they are chosen anew
    return saved


def required(paths: Paths) -> Settings:
    """The settings of the last boot.

    Raises:
        ApplianceError: as ``load``; or there was no boot yet.
    """
    known = load(paths)
    if known is None:
        raise ApplianceError(
            "This instance has no identity yet.", "Run `systemctl start infinity-firstboot`."
        )
    return known


def current(paths: Paths) -> Settings:
    """The settings of the last boot, with the model that infinity.env names now.

    Raises:
        ApplianceError: as ``required``.
    """
    known = required(paths)
    try:
        return dataclasses.replace(known, model=configured_model(paths.server_env))
    except ApplianceError:
        return known  # the server says what is wrong with it


def as_text(settings: Settings) -> str:
    """What the settings file holds."""
    return json.dumps(dataclasses.asdict(settings), indent=2) + "\n"
