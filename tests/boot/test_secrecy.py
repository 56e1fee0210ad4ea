"""Where secrets must never be seen: logs, command lines, environments."""

from __future__ import annotations

import base64
import json

import probe
import pytest

from machine.instance import Machine

pytestmark = pytest.mark.boot

# Every process's command line and environment, looked at as often as possible until told to end.
WATCH = """
import glob, sys, time
seen = set()
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                seen.add(file.read())
        except OSError:
            pass
sys.stdout.buffer.write(b"\\n".join(seen))
"""


def shapes(machine: Machine) -> dict[str, bytes]:
    """The secrets as they would appear in a text, by name."""
    mine = probe.credentials(machine)
    login = f"{mine.username}:{mine.password}"
    found = {
        "api key": mine.api_key,
        "password": mine.password,
        "login as sent": base64.b64encode(login.encode()).decode(),
        "hash": machine.exec(["cat", str(probe.PATHS.htpasswd)]).stdout.strip().partition(":")[2],
    }
    keys = machine.exec(f"cat {probe.PATHS.certificate_key} {probe.HOST_KEYS}").stdout
    bodies = [line for line in keys.splitlines() if len(line) > 40 and "-----" not in line]
    assert len(bodies) > 4
    found |= {f"private key line {number}": body for number, body in enumerate(bodies)}
    return {name: text.encode() for name, text in found.items()}


def leaked(machine: Machine, haystack: bytes) -> list[str]:
    return [name for name, text in shapes(machine).items() if text in haystack]


def test_access_log_tells_who_called_and_no_secret(shared: Machine) -> None:
    mine = probe.credentials(shared)
    log = "/var/log/nginx/access.log"
    before = len(shared.exec(["cat", log]).raw_stdout)
    probe.request(shared, f"/models?api_key={mine.api_key}", headers=mine.bearer)
    probe.request(shared, "/models", auth=(mine.username, mine.password))
    probe.request(shared, "/models", auth=(mine.api_key, "x"))
    probe.request(shared, "/models", headers={"Authorization": f"Bearer {mine.api_key}0"})
    body = {"model": mine.model, "input": ["a private text"]}
    probe.request(shared, "/embeddings", headers=mine.bearer, body=body)
    written = shared.exec(["cat", log]).raw_stdout[before:]
    lines = [json.loads(line) for line in written.splitlines()]
    assert [line["status"] for line in lines] == [200, 200, 401, 401, 200]
    assert leaked(shared, written) == []
    assert b"a private text" not in written
    errors = shared.exec("cat /var/log/nginx/*").raw_stdout
    assert leaked(shared, errors) == []


def test_no_secret_in_the_journal_or_in_any_process(shared: Machine) -> None:
    journal = shared.exec(["journalctl", "--no-pager", "--output=export"]).raw_stdout
    assert b"infinity-firstboot.service" in journal
    assert leaked(shared, journal) == []
    processes = shared.exec("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; true")
    assert b"appliance.serving.server" in processes.raw_stdout
    assert leaked(shared, processes.raw_stdout) == []


def test_no_secret_in_command_lines_while_a_first_boot_makes_them(fragile: Machine) -> None:
    fragile.metadata["public-hostname"] = "ec2-198-51-100-20.compute.test"
    fragile.metadata["instance-id"] = "i-0watched"
    watch = f"""
        python3 - 4 >/run/watched <<'END' &
{WATCH}
END
        sleep 0.3
        systemctl restart infinity-firstboot nginx
        wait
        cat /run/watched
    """
    seen = fragile.exec(watch).raw_stdout
    assert b"firstboot" in seen, "the watch has to have been there"
    assert leaked(fragile, seen) == []
    journal = fragile.exec(["journalctl", "--no-pager", "--output=export"]).raw_stdout
    assert leaked(fragile, journal) == []


def test_no_core_dump_is_kept(shared: Machine) -> None:
    for unit in ("infinity-firstboot", "infinity-model", "infinity", "nginx"):
        assert probe.show(shared, f"{unit}.service", "LimitCORE") == "0"
