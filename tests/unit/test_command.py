"""The frame of the commands: one sentence on failure, everything put back on a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_support import ran, state
from firstboot_support import Disk
from gate_harness import nginx_program

COMMANDS = sorted(
    path.stem
    for path in Path(__file__).resolve().parents[2].joinpath("appliance/commands").glob("[a-z]*.py")
)
# A command that has written its files and then waits inside its change, for a signal.
WAITING = """
import sys, time
from appliance import command
from appliance.activate import NewFile, activated

def act(options, gate):
    with command.changing(gate):
        path = gate.paths.api_key_map
        with activated([NewFile(path, "", 0o600, gate.secret_owner)], gate):
            print("changed", flush=True)
            time.sleep(60)

sys.exit(command.run(command.parser("infinity-x", "x", "x"), act))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_in_the_middle_puts_everything_back(booted: Disk, number: signal.Signals) -> None:
    before = state(booted)
    words = ["--root", str(booted.paths.root), "--nginx", nginx_program()]
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "changed\n"
        assert state(booted) != before
        process.send_signal(number)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 1
    assert len(error.splitlines()) == 1
    assert state(booted) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(booted: Disk, command: str) -> None:
    done = ran(booted, command, "--help")
    assert done.status == 0
    assert f"example:\n  sudo infinity-{command.replace('_', '-')}" in done.output


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_wrong_use(booted: Disk, command: str) -> None:
    before = state(booted)
    assert ran(booted, command, "--frobnicate").status == 2
    assert state(booted) == before


def test_before_first_boot_a_command_says_what_to_do(disk: Disk) -> None:
    disk.paths.state.mkdir(parents=True)
    disk.paths.api_key_map.write_text("")
    done = ran(disk, "api_key", "add", "x")
    assert done.status == 1
    assert "systemctl start infinity-firstboot" in done.error


def test_a_reader_that_has_gone_is_no_traceback(booted: Disk) -> None:
    words = ["--root", str(booted.paths.root), "list", "--json"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "appliance.commands.api_key", *words],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert done.returncode == 1
    assert done.stderr == b""
