"""The door to subprocesses: what it says when a command fails, and what it keeps from a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from appliance.run import run


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_no_shell_reads_the_arguments() -> None:
    argument = "$(echo no); 'x' > /dev/null"
    assert run([*python("import sys; print(sys.argv[1])"), argument]).stdout == argument + "\n"


def test_standard_input_is_empty_or_what_was_given() -> None:
    read = python("import sys; print(repr(sys.stdin.read()))")
    assert run(read).stdout == "''\n"
    assert run(read, stdin="given").stdout == "'given'\n"


def test_a_failure_carries_status_and_last_line() -> None:
    command = python("import sys; print('first\\nlast', file=sys.stderr); sys.exit(3)")
    with pytest.raises(ApplianceError, match="failed with status 3") as caught:
        run(command, hint="Do this.")
    assert caught.value.message.endswith("failed with status 3: last")
    assert caught.value.hint == "Do this."
    assert run(command, check=False).returncode == 3


def test_output_that_is_no_text_is_no_error() -> None:
    assert (
        run(python("import sys; sys.stdout.buffer.write(b'a\\xff')")).stdout
        == "a\N{REPLACEMENT CHARACTER}"
    )


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ApplianceError, match=r"^no-such-program is not installed\.$"):
        run(["no-such-program", "-x"])


def test_a_program_that_cannot_start_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("")
    with pytest.raises(ApplianceError, match="could not be started: Permission denied"):
        run([tmp_path / "tool"])


def test_a_command_without_end_is_killed() -> None:
    with pytest.raises(ApplianceError, match=r"did not finish within 0\.2 s"):
        run(python("import time; time.sleep(600)"), timeout=0.2)


def test_the_environment_is_the_given_one_and_nothing_else() -> None:
    command = python("import os; print(sorted(os.environ))")
    assert "HOME" not in run(command, env={"ONLY": "this"}).stdout
    assert "ONLY" in run(command, env={"ONLY": "this"}).stdout
