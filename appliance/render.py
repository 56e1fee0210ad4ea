"""Settings and secrets in, the text of files out; nothing is read but the templates."""

from __future__ import annotations

from pathlib import Path

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
    except (jinja2.TemplateError, OSError) as error:
        raise ApplianceError(
            f"The template {SITE_TEMPLATE} does not render: {error}.",
            f"Restore {templates / SITE_TEMPLATE} from the release, "
            "then run `systemctl start infinity-firstboot`.",
        ) from error


def key_map(identity: Identity) -> str:
    """The line that lets one API key in, as an operator may also write it by hand."""
    return f'"Bearer {identity.api_key}" 1;\n'


def credentials(settings: Settings, identity: Identity) -> str:
    """The credentials file of a new instance."""
    return "".join(
        f"{key}={value}\n"
        for key, value in {
            **described(settings),
            "INFINITY_API_KEY": identity.api_key,
            "INFINITY_USERNAME": identity.username,
            "INFINITY_PASSWORD": identity.password,
        }.items()
    )


def described(settings: Settings) -> dict[str, str]:
    """The entries of the credentials file that are no secret and follow the settings."""
    return {
        "INFINITY_HOST": settings.hostname,
        "INFINITY_URL": settings.url,
        "INFINITY_MODEL": settings.model,
    }


def updated_credentials(text: str, settings: Settings) -> str:
    """The credentials file with true names in it; every other line stays as it is."""
    values = described(settings)
    lines = []
    for line in text.splitlines():
        key = line.partition("=")[0]
        lines.append(f"{key}={values[key]}" if key in values else line)
    return "".join(f"{line}\n" for line in lines)
