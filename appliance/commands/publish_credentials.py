"""Write this instance's credentials into the secret that CREDENTIALS_SECRET_ARN names.

It stands in /etc/infinity/fleet.env. systemd runs this whenever the credentials file changes;
nothing happens where no secret is named.
"""

from __future__ import annotations

import argparse
import json
import sys

from appliance import command, fleet, identity, secrets_manager
from appliance.gate import Gate


def main() -> int:
    example = "sudo infinity-publish-credentials"
    return command.run(command.parser("infinity-publish-credentials", __doc__, example), publish)


def publish(_options: argparse.Namespace, gate: Gate) -> None:
    named = fleet.configured(gate.paths)
    if not named.published:
        print("No secret is named to publish to.")
        return
    sent: dict[str, str] = {}
    # Again while they change: the unit that watches the file is blind until this process ends.
    while (told := identity.read_credentials(gate.paths)) and told != sent:
        secrets_manager.write(named.published, json.dumps(told), named.endpoint)
        sent = told
    if not sent:
        print("There is no credentials file; the secret stays as it is.")
        return
    print("The credentials of this instance are in Secrets Manager.")


if __name__ == "__main__":
    sys.exit(main())
