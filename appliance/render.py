"""Settings and secrets in, the text of files out; nothing is read but the templates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from appliance import keys
from appliance.errors import ApplianceError
from appliance.identity import Identity
from appliance.settings import Settings

SITE_TEMPLATE = "infinity-site.conf.j2"


def site(settings: Settings, templates: Path) -> str:
    """Nginx's server blocks: names and listen lines around the static snippets.

    Raises:
        ApplianceError: the template is missing or does not render.
    """
    import jinja2  # noqa: PLC0415 - a boot with nothing to do does not pay for it

    # nginx's configuration is no HTML; what goes in has passed names.normal.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701
    )
    https = settings.ports.https
    try:
        return environment.get_template(SITE_TEMPLATE).render(
            hostname=settings.hostname,
            aliases=list(settings.aliases),
            https_port=https,
            http_port=settings.ports.http,
            redirect_port_suffix="" if https == 443 else f":{https}",  # noqa: PLR2004
            upstream_port=settings.ports.upstream,
            ipv6=settings.ipv6,
        )
    except Exception as error:  # whatever the expressions of a template raise
        said = " ".join(str(error).split()).rstrip(".")
        raise ApplianceError(
            f"The template {SITE_TEMPLATE} does not render: {said or type(error).__name__}.",
            f"Restore {templates / SITE_TEMPLATE} from the release, "
            "then run `systemctl start infinity-firstboot`.",
        ) from error


def key_map(identity: Identity) -> str:
    """The line that lets one API key in, as an operator may also write it by hand."""
    return keys.line(keys.UNNAMED, identity.api_key)


def credentials(settings: Settings, identity: Identity, before: str = "") -> str:
    """The credentials file with every entry that is known: in its line, else at the end.

    Args:
        settings: what is served.
        identity: the secrets.
        before: the file as it is.
    """
    values = {**described(settings), **secrets_of(identity)}
    return updated_credentials(before, values, add=True)


def secrets_of(identity: Identity) -> dict[str, str]:
    """The entries of the credentials file that let somebody in; none for what nobody knows."""
    values = {}
    if identity.api_key:
        values["INFINITY_API_KEY"] = identity.api_key
    if identity.password:
        values["INFINITY_USERNAME"] = identity.username
        values["INFINITY_PASSWORD"] = identity.password
    return values


def described(settings: Settings) -> dict[str, str]:
    """The entries of the credentials file that are no secret and follow the settings."""
    return {
        "INFINITY_HOST": settings.hostname,
        "INFINITY_URL": settings.url,
        "INFINITY_MODEL": settings.model,
    }


def updated_credentials(text: str, values: Mapping[str, str], *, add: bool = False) -> str:
    """The credentials file with these values in its lines; every other line stays as it is.

    ``add`` puts the values that have no line at the end.
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    present = [line.partition("=")[0] for line in lines]
    told = [
        f"{key}={values[key]}" if key in values else line
        for key, line in zip(present, lines, strict=True)
    ]
    if add:
        told += [f"{key}={values[key]}" for key in values if key not in present]
    return "".join(f"{line}\n" for line in told)
