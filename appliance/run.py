"""The one door to subprocesses: argv lists, never a shell, no inherited standard input."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import ApplianceError


@dataclass(frozen=True)
class Completed:
    """What a finished command left: its exit status and its decoded output."""

    returncode: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    check: bool = True,
    timeout: float | None = 60.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    hint: str = "",
) -> Completed:
    """Run a command to its end and return what it printed.

    A secret goes in through ``stdin`` or a file, never through ``argv`` (any user can
    read another process's command line) and never through ``env``.

    Args:
        argv: the program and its arguments; no shell reads them.
        stdin: text for its standard input; otherwise /dev/null.
        check: raise when the exit status is not 0.
        timeout: seconds until the command is killed; None waits for ever.
        env: the whole environment, instead of this process's.
        cwd: the folder it runs in.
        hint: what to tell a person when it fails.

    Raises:
        ApplianceError: the program is missing, took too long, or (with ``check``) failed;
            the message carries the command, its exit status and its last line of stderr.
    """
    words = [str(word) for word in argv]
    shown = shlex.join(words)
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            env=None if env is None else dict(env),
            cwd=cwd,
            check=False,
        )
    except FileNotFoundError as error:
        raise ApplianceError(f"{error.filename} is not installed.", hint) from error
    except OSError as error:
        raise ApplianceError(f"`{shown}` could not be started: {error.strerror}.", hint) from error
    except subprocess.TimeoutExpired as error:
        raise ApplianceError(f"`{shown}` did not finish within {timeout:g} s.", hint) from error
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        detail = f": {said[-1]}" if said else "."
        raise ApplianceError(f"`{shown}` failed with status {done.returncode}{detail}", hint)
    return Completed(done.returncode, done.stdout, done.stderr)
