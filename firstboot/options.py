"""Where a first boot works.

An instance says nothing; a first look without a machine, and the tests, have their own places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.imds import DEADLINE, DEFAULT_URL
from appliance.settings import Ports


@dataclass(frozen=True)
class Options:
    """``patience`` is the seconds that the metadata service has; ``nginx`` is its program."""

    root: Path = Path("/")
    imds_url: str = DEFAULT_URL
    patience: float = DEADLINE
    nginx: str = "nginx"
    https_port: int = Ports.https
    http_port: int = Ports.http
    upstream_port: int = Ports.upstream

    @property
    def ports(self) -> Ports:
        return Ports(self.https_port, self.http_port, self.upstream_port)


def read(words: Sequence[str], about: str | None) -> Options:
    """The options of a command line.

    Args:
        words: of the command line, without the program's name.
        about: what ``--help`` says the program does.

    Raises:
        SystemExit: status 2, the words are wrong; 0, they asked for help.
    """
    if not words:
        return Options()
    import argparse  # noqa: PLC0415 - a fifth of what a boot with nothing to do imports

    parser = argparse.ArgumentParser(prog="firstboot", description=about)
    parser.add_argument("--root", type=lambda name: Path(name).absolute(), default=Options.root)
    parser.add_argument("--imds-url", default=Options.imds_url)
    parser.add_argument(
        "--patience", type=float, default=Options.patience, help="seconds for metadata"
    )
    parser.add_argument("--nginx", default=Options.nginx, help="nginx's program")
    parser.add_argument("--https-port", type=int, default=Options.https_port)
    parser.add_argument("--http-port", type=int, default=Options.http_port)
    parser.add_argument("--upstream-port", type=int, default=Options.upstream_port)
    return Options(**vars(parser.parse_args(words)))
