"""The report as one screen of text: a line a part, then what is wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from appliance.status import clock
from appliance.status.report import Parts, Status

WIDTH = 80  # characters
LABEL = 12
LONGEST = 3  # lines of one value
_GIB = 1024**3
RED, GREEN, BOLD, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[0m"


def page(status: Status, *, colours: bool) -> str:
    """All of it.

    Args:
        status: to show.
        colours: whether a terminal reads it.
    """
    red, green, bold, plain = (RED, GREEN, BOLD, PLAIN) if colours else ("", "", "", "")
    lines = []
    for label, value in rows(status.parts):
        wrapped = textwrap.wrap(
            printable(value), WIDTH - LABEL - 1, max_lines=LONGEST, placeholder=" ..."
        )
        heads = [label, *[""] * len(wrapped)]
        lines += [
            f"{bold}{head:{LABEL}}{plain} {text}"
            for head, text in zip(heads, wrapped, strict=False)
        ]
    if status.healthy:
        lines.append(f"{green}Nothing is wrong.{plain}")
    for problem in status.problems:
        text = textwrap.shorten(printable(problem.what), 2 * WIDTH, placeholder=" ...")
        lines += [f"{red}{line}{plain}" for line in textwrap.wrap(f"! {text}", WIDTH)]
        lines.append(f"  {problem.command}")
    return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """Names of processes, subjects of certificates and log lines are not ours."""
    return "".join(character if character.isprintable() else "?" for character in text)


def rows(parts: Parts) -> Iterator[tuple[str, str]]:
    """Label and value of each line."""

    def unknown(part: str) -> str:
        return f"unknown: {parts.why_unknown(part) or 'not looked at'}"

    yield "instance", _instance(parts) if parts.instance else unknown("instance")
    yield "host", _host(parts) if parts.host else unknown("host")
    yield "certificate", _certificate(parts) if parts.certificate else unknown("certificate")
    yield "model", _model(parts) if parts.model else unknown("model")
    yield "first boot", _first_boot(parts) if parts.first_boot else unknown("first_boot")
    yield "gate", _gate(parts) if parts.gate else unknown("gate")
    yield "ports", _ports(parts) if parts.ports is not None else unknown("ports")
    yield "egress", _egress(parts) if parts.egress is not None else unknown("egress")
    yield "login", _login(parts) if parts.login else unknown("login")
    yield "API keys", _keys(parts) if parts.api_keys else unknown("api_keys")
    yield "requests", _requests(parts)
    yield "disk", _disks(parts) if parts.disks else unknown("disks")
    yield "memory", _memory(parts) if parts.memory else unknown("memory")
    yield "updates", _updates(parts) if parts.updates else unknown("updates")


def _instance(parts: Parts) -> str:
    found = parts.instance
    assert found  # noqa: S101 - the caller has looked; so in all functions below
    name = found.id or "no instance id"
    return f"{name}, {found.type or 'of an unknown type'}" + (
        "" if found.metadata_id else "; the metadata service is silent"
    )


def _host(parts: Parts) -> str:
    assert parts.host  # noqa: S101
    origin = "from metadata" if parts.host.follows_metadata else "chosen by the operator"
    also = f"; also {', '.join(parts.host.aliases)}" if parts.host.aliases else ""
    return f"{parts.host.name}, {origin}{also}"


def _certificate(parts: Parts) -> str:
    found = parts.certificate
    assert found  # noqa: S101
    whose = "made by this instance" if found.maker == "instance" else f"issued by {found.issuer}"
    return f"until {found.not_after[:10]} ({found.days_left} days), {whose}"


def _model(parts: Parts) -> str:
    found = parts.model
    assert found  # noqa: S101
    served = ", ".join(f"{each.id} ({', '.join(each.capabilities)})" for each in found.served)
    return f"{found.state}: {served or found.configured or 'none configured'}"


def _first_boot(parts: Parts) -> str:
    found = parts.first_boot
    assert found  # noqa: S101
    if found.finished is None:
        return f"{found.result}: {found.said}" if found.said else found.result
    return f"{found.result} at {_moment(found.finished)}, in {found.seconds} s"


def _gate(parts: Parts) -> str:
    found = parts.gate
    assert found  # noqa: S101
    if not found.answers:
        return found.said or "silent"
    said = ["LETS STRANGERS IN", "refuses strangers", "not tried on strangers"]
    keys = ["REFUSES ITS KEY", "lets its key in", "has no key to try"]
    tried = (
        told[2] if done is None else told[done]
        for told, done in ((said, found.refuses_strangers), (keys, found.accepts_key))
    )
    return ", ".join(tried)


def _ports(parts: Parts) -> str:
    beyond = [each for each in parts.ports or () if each.beyond_loopback]
    fine = ", ".join(f"{each.port} {each.process}" for each in beyond if each.expected)
    odd = ", ".join(
        f"{each.port}/{each.protocol} {each.process or '?'}"
        for each in parts.ports or ()
        if not each.expected
    )
    return f"{fine or 'none'}; {'UNEXPECTED: ' + odd if odd else 'nothing unexpected'}"


def _egress(parts: Parts) -> str:
    reached = [each.address for each in parts.egress or () if each.verdict == "open"]
    missing = [each.address for each in parts.egress or () if each.verdict == "no route"]
    if reached:
        return f"OPEN: {', '.join(reached)}"
    tried = len(parts.egress or ()) - len(missing)
    also = f"; no route to {', '.join(missing)}" if missing else ""
    return f"{tried} addresses tried from inside the server's group, all blocked{also}"


def _login(parts: Parts) -> str:
    assert parts.login  # noqa: S101
    users = ", ".join(parts.login.users)
    file = parts.credentials_file
    written = "" if file is None or file.present else "; the credentials file was deleted"
    return (f"enabled ({users})" if parts.login.enabled else "disabled") + written


def _keys(parts: Parts) -> str:
    found = parts.api_keys
    assert found  # noqa: S101
    named = ", ".join(
        f"{key.name} until {_moment(key.until)}" if key.until else key.name for key in found.keys
    )
    unread = f"; {found.unread} lines of other kinds" if found.unread else ""
    return f"{found.count}: {named}{unread}" if found.count else f"none{unread}"


def _requests(parts: Parts) -> str:
    log, found = parts.gate_log, parts.requests
    gate = f"; at the gate {log.unauthorized} of the newest {log.total} were 401" if log else ""
    if found is None:
        return f"unknown: {parts.why_unknown('requests')}{gate}"
    if not found.total:
        return f"none since {_moment(found.since)}{gate}"
    return (
        f"{found.total} since {_moment(found.since)}: {found.succeeded} good, {found.refused} "
        f"refused, {found.failed} failed; p50 {found.p50_ms:g} ms, p99 {found.p99_ms:g} ms{gate}"
    )


def _disks(parts: Parts) -> str:
    return ", ".join(
        f"{disk.path} {disk.free / _GIB:.1f} of {disk.size / _GIB:.1f} GiB free"
        for disk in parts.disks or ()
        if disk.path not in {"/run", "/tmp"}  # noqa: S108 - shown when they are full
    )


def _memory(parts: Parts) -> str:
    found = parts.memory
    assert found  # noqa: S101
    limit = f" of {found.server_limit / _GIB:.1f} allowed" if found.server_limit else ""
    server = f"; the server uses {found.server / _GIB:.1f} GiB{limit}" if found.server else ""
    return f"{found.available / _GIB:.1f} of {found.size / _GIB:.1f} GiB available{server}"


def _updates(parts: Parts) -> str:
    found = parts.updates
    assert found  # noqa: S101
    reboot = "; REBOOT REQUIRED" if found.reboot_required else "; no reboot required"
    if found.security is None or found.counted is None:
        return f"security updates not counted yet{reboot}"
    return f"{found.security} security updates wait, counted {_moment(found.counted)}{reboot}"


def _moment(text: str) -> str:
    """As the operator's clock has it: today without the date."""
    day, _, rest = text.partition("T")
    return f"{rest[:5]} UTC" if day == clock.now()[:10] else f"{day} {rest[:5]} UTC"
