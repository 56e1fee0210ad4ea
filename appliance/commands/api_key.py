"""List, add, rotate and revoke the API keys that this instance accepts.

A new key is printed once, on standard output. The access log and the metrics call a key by
its name; `unnamed` stands for the keys that have none.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import sys

from appliance import command, fleet, identity, keyring, keys
from appliance.gate import Gate

LONGEST_GRACE = dt.timedelta(days=90)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def main() -> int:
    return command.run(arguments(), act)


def arguments() -> argparse.ArgumentParser:
    example = (
        "sudo infinity-api-key add search-team\n"
        "  sudo infinity-api-key rotate search-team --grace 1h"
    )
    parser = command.parser("infinity-api-key", __doc__, example)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    listing = verbs.add_parser("list", help="names, fingerprints and ends; never a key")
    listing.add_argument("--json", action="store_true", help="for programs")
    adding = verbs.add_parser("add", help="one more key")
    adding.add_argument("name", type=new_name, metavar="NAME")
    rotating = verbs.add_parser("rotate", help="a new key in place of the old one")
    rotating.add_argument("name", metavar="NAME")
    rotating.add_argument(
        "--grace",
        type=grace,
        default=dt.timedelta(),
        metavar="TIME",
        help="how long the old key works too, such as 30m, 1h or 7d (default: not at all)",
    )
    revoking = verbs.add_parser("revoke", help="refuse the key from now on")
    revoking.add_argument("name", metavar="NAME")
    verbs.add_parser("expire", help="end the grace periods that are over (a timer does it)")
    return parser


def act(options: argparse.Namespace, gate: Gate) -> None:
    if options.verb == "list":
        return show(gate, as_json=options.json)
    if options.verb != "expire":
        fleet.refuse_by_hand(gate.paths)
    with command.changing(gate) as known:
        if options.verb == "add":
            keyring.add(options.name, known, gate, hand_over)
        elif options.verb == "rotate":
            keyring.rotate(options.name, options.grace, known, gate, hand_over)
        elif options.verb == "revoke":
            keyring.revoke(options.name, known, gate)
            say(f"The key {options.name} is refused from now on.")
        else:
            for name in keyring.expire(known, gate):
                say(f"The grace period of a key of {name} is over.")
    return None


def show(gate: Gate, *, as_json: bool) -> None:
    told = identity.read_credentials(gate.paths).get("INFINITY_API_KEY", "")
    text = keyring.read(gate.paths)
    rows = [
        {
            "name": key.name,
            "fingerprint": key.fingerprint,
            "until": key.until.isoformat().replace("+00:00", "Z") if key.until else None,
            "in_credentials_file": key.token == told,
        }
        for key in keys.parse(text)
    ]
    if as_json:
        print(json.dumps({"keys": rows, "lines_not_read": keys.unread(text)}, indent=2))
        return
    for row in rows:
        notes = [f"until {row['until']}"] * bool(row["until"])
        notes += ["in the credentials file"] * bool(row["in_credentials_file"])
        print(f"{row['name']:<24} {row['fingerprint']}  {', '.join(notes)}".rstrip())
    if not rows:
        say("No key is accepted. `infinity-api-key add NAME` makes one.")
    if count := keys.unread(text):
        say(f"{count} more of the map's lines may let somebody in: patterns or includes.")


def new_name(text: str) -> str:
    if text in {keys.UNNAMED, keys.LOGIN} or not keys.NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            "a name is a letter and up to 62 letters, digits, dots, hyphens and underscores; "
            f"{keys.UNNAMED} and {keys.LOGIN} are taken"
        )
    return text


def grace(text: str) -> dt.timedelta:
    """A length of time: a whole number and s, m, h or d."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    length = dt.timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
    if length is None or length > LONGEST_GRACE:
        raise argparse.ArgumentTypeError(
            f"a time is like 90s, 30m, 1h or 7d, up to {LONGEST_GRACE.days}d"
        )
    return length


def hand_over(key: str) -> None:
    print(key, flush=True)


def say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
