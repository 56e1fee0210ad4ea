"""Every path the appliance reads or writes, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Paths:
    """Where things are below ``root``: ``/`` on an instance, a folder anywhere else.

    The same code serves an instance (``Paths()``), a first look without root
    (``Paths(build/local)``) and a unit test (``Paths(tmp_path)``).
    """

    root: Path = Path("/")

    @property
    def credentials(self) -> Path:
        """The credentials in plain text, 0600 root: the one place secrets are kept readable."""
        return self.root / "root/infinity-credentials.txt"

    @property
    def certificate(self) -> Path:
        return self.root / "etc/ssl/infinity/infinity.crt"

    @property
    def certificate_key(self) -> Path:
        return self.root / "etc/ssl/infinity/infinity.key"

    @property
    def earlier_certificate(self) -> Path:
        """The certificate of ours before the present one."""
        return self.state / "earlier.crt"

    @property
    def letsencrypt(self) -> Path:
        """The folder of certbot; it holds private keys."""
        return self.root / "etc/letsencrypt"

    @property
    def letsencrypt_log(self) -> Path:
        """Of the last run of certbot alone."""
        return self.root / "var/log/letsencrypt/letsencrypt.log"

    @property
    def acme_webroot(self) -> Path:
        """Where certbot lays the answer to a challenge, which nginx shows on port 80."""
        return self.root / "var/lib/infinity-acme"

    @property
    def nginx(self) -> Path:
        """The folder of nginx.conf; nginx resolves relative paths from here."""
        return self.root / "etc/nginx"

    @property
    def api_key_map(self) -> Path:
        return self.nginx / "infinity-apikey.map"

    @property
    def htpasswd(self) -> Path:
        return self.nginx / ".infinity.htpasswd"

    @property
    def nginx_site(self) -> Path:
        """What varies from one instance to the next: names and listen lines, rendered."""
        return self.nginx / "infinity-site.conf"

    @property
    def hostname(self) -> Path:
        """The public name, when the operator chose one."""
        return self.root / "etc/cloudimg/infinity-hostname"

    @property
    def login_off(self) -> Path:
        """Exists where the operator wants no login; copies of the instance keep to it."""
        return self.root / "etc/cloudimg/infinity-login-off"

    @property
    def fleet_env(self) -> Path:
        """Names the secrets in AWS Secrets Manager that this instance shares; from user data."""
        return self.root / "etc/infinity/fleet.env"

    @property
    def fleet(self) -> Path:
        """What nginx reads of the shared secrets, in memory: no copy of the disk has it."""
        return self.root / "run/infinity-fleet"

    @property
    def fleet_api_key_map(self) -> Path:
        return self.fleet / "apikey.map"

    @property
    def fleet_htpasswd(self) -> Path:
        return self.fleet / "htpasswd"

    @property
    def server_env(self) -> Path:
        return self.root / "etc/infinity/infinity.env"

    @property
    def model_cache(self) -> Path:
        return self.root / "var/lib/infinity/hf"

    @property
    def hub(self) -> Path:
        """The models, in the layout of the model hub's client."""
        return self.model_cache / "hub"

    @property
    def state(self) -> Path:
        """0700 root; settings and stamp, no secret."""
        return self.root / "var/lib/infinity-appliance"

    @property
    def settings(self) -> Path:
        return self.state / "settings.json"

    @property
    def stamp(self) -> Path:
        return self.state / "instance.json"

    @property
    def change(self) -> Path:
        """The files that a change under way is about to replace; gone when it stands."""
        return self.state / "change.json"

    @property
    def finished(self) -> Path:
        """The same list of a change that stands, until nothing is left of the old files."""
        return self.state / "finished.json"

    @property
    def lock(self) -> Path:
        return self.root / "run/infinity-appliance.lock"

    @property
    def server_lock(self) -> Path:
        """Held by who downloads, imports or tries models, or another server: for minutes."""
        return self.root / "run/infinity-server.lock"

    @property
    def venv(self) -> Path:
        """The server's Python: a link into ``venvs``, which an upgrade replaces."""
        return self.root / "opt/infinity/venv"

    @property
    def venvs(self) -> Path:
        return self.root / "opt/infinity/venvs"

    @property
    def previous_venv(self) -> Path:
        """What the last upgrade replaced: a link beside the present one."""
        return self.root / "opt/infinity/venv-previous"

    @property
    def order_lock(self) -> Path:
        """Held while a certificate is being ordered, which may take minutes."""
        return self.root / "run/infinity-acme.lock"

    @property
    def machine_id(self) -> Path:
        return self.root / "etc/machine-id"

    @property
    def asset_tag(self) -> Path:
        """DMI board asset tag; on Nitro it holds the instance id."""
        return self.root / "sys/class/dmi/id/board_asset_tag"

    @property
    def templates(self) -> Path:
        """Jinja2 templates: beside this package in a checkout, below /opt in the image."""
        return Path(__file__).resolve().parent.parent / "templates"
