"""Set the password of the login `admin`, or switch the login off.

Without an option it asks for the password, or reads one line of standard input when that is no
terminal. The credentials file holds the password afterwards; API keys are not touched.
"""

from __future__ import annotations

import argparse
import getpass
import sys

from appliance import command, fleet, identity, login
from appliance.command import UsageError
from appliance.errors import ApplianceError
from appliance.gate import Gate

LONGEST_LINE = 4096  # bytes; more is refused as too long all the same


def main() -> int:
    return command.run(arguments(), act)


def arguments() -> argparse.ArgumentParser:
    example = "sudo infinity-set-password --generate"
    parser = command.parser("infinity-set-password", __doc__, example)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--generate", action="store_true", help="make a password of 192 random bits")
    how.add_argument(
        "--disable", action="store_true", help="refuse every login; browser pages are closed"
    )
    how.add_argument(
        "--enable", action="store_true", help="end --disable with a new, generated password"
    )
    parser.add_argument("--show", action="store_true", help="print a generated password, once")
    return parser


def act(options: argparse.Namespace, gate: Gate) -> None:
    generated = options.generate or options.enable
    if options.show and not generated:
        raise UsageError("--show goes with --generate or --enable.", "See --help.")
    fleet.refuse_by_hand(gate.paths)
    if options.disable:
        return disable(gate)
    password = identity.new_password() if generated else asked()
    with command.changing(gate) as known:
        if login.disabled(gate.paths) and not options.enable:
            raise UsageError("The login is off.", "Run `infinity-set-password --enable`.")
        login.change(password, known, gate)
    report(gate, password if generated else "", show=options.show)
    return None


def disable(gate: Gate) -> None:
    with command.changing(gate) as known:
        others = login.disable(known, gate)
    print("The login is off: every request needs an API key.")
    if others:
        print(f"{others} more in the password file lost theirs; `htpasswd` adds them again.")


def asked() -> str:
    """The password from a person, twice, or from a pipe.

    Raises:
        UsageError: it is unusable, or the two differ.
    """
    try:
        password = typed() if sys.stdin.isatty() else piped()
        login.check(password)
    except UnicodeDecodeError as error:
        raise UsageError("The password is no text.", "It is to be UTF-8.") from error
    except ApplianceError as error:
        raise UsageError(error.message, error.hint) from error
    return password


def typed() -> str:
    try:
        password = getpass.getpass("New password: ")
        again = getpass.getpass("Again: ")
    except EOFError as error:
        raise UsageError("No password was typed.", "Run the command again.") from error
    if again != password:
        raise UsageError("The two passwords differ.", "Run the command again.")
    return password


def piped() -> str:
    return sys.stdin.buffer.readline(LONGEST_LINE).decode().removesuffix("\n")


def report(gate: Gate, generated: str, *, show: bool) -> None:
    """Where the password is; a generated one that is written nowhere is printed."""
    written = gate.paths.credentials.exists()
    printed = bool(generated) and (show or not written)
    if printed:
        print(generated)
    where = f" It is in {gate.paths.credentials}." if written else ""
    said = f"The password of {identity.USERNAME} has changed.{where}"
    print(said, file=sys.stderr if printed else sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
