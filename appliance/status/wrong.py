"""What is wrong, and the command that mends it: judged from what was found, nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.status import clock
from appliance.status.report import Parts, Problem

DAYS_LEFT = 21  # of a certificate; ours renew themselves earlier
LEAST_DISK = 1024**3  # bytes
LEAST_SHARE = 0.05  # of a disk, of its inodes, of the memory
PATIENCE_HOURS = 48.0  # unattended upgrades run once a day
MANY_RESTARTS = 3
_START = "sudo systemctl restart infinity-firstboot nginx"
_BOOTED = "sudo journalctl -b -u infinity-firstboot -u nginx -n 30 --no-pager"
_SERVER = "sudo journalctl -u infinity -u infinity-model -n 50 --no-pager"


def problems(parts: Parts) -> tuple[Problem, ...]:
    """Everything that needs a person, the gravest first."""
    judges = (_open, _identity, _gate, _model, _certificate, _access, _room, _upkeep)
    return tuple(problem for judge in judges for problem in judge(parts))


def _open(parts: Parts) -> Iterator[Problem]:
    """What is open and should be shut."""
    if parts.gate and parts.gate.refuses_strangers is False:
        yield Problem("nginx lets requests in without a credential", "sudo infinity-gate-check")
    for each in parts.egress or ():
        if each.verdict == "open":
            yield Problem(
                f"the model server can reach {each.address}",
                "sudo systemctl daemon-reload && sudo systemctl restart infinity.service",
            )
    for listener in parts.ports or ():
        if not listener.expected:
            where = "beyond loopback " if listener.beyond_loopback else ""
            yield Problem(
                f"{listener.process or 'something'} listens {where}on "
                f"{listener.protocol} port {listener.port}",
                f"sudo ss -tulnp 'sport = :{listener.port}'",
            )


def _identity(parts: Parts) -> Iterator[Problem]:
    if parts.units is None:
        yield Problem("systemd does not answer", "sudo systemctl is-system-running")
    boot = parts.first_boot
    if boot and boot.result == "failed":
        yield Problem(f"first boot failed{_because(boot.said)}", _START)
    elif boot and boot.result == "never" and parts.units is not None:
        yield Problem("first boot has not run", "sudo systemctl start infinity-firstboot nginx")
    elif parts.host is None and (boot is None or boot.result != "running"):
        yield Problem(f"the settings are lost{_because(parts.why_unknown('host'))}", _START)
    instance = parts.instance
    if instance and instance.id and instance.metadata_id not in {None, instance.id}:
        yield Problem("this identity belongs to another instance", _START)
    if parts.change_pending and boot and boot.result != "running":
        yield Problem("a change was cut off in the middle", "sudo infinity-restore")


def _gate(parts: Parts) -> Iterator[Problem]:
    gate = parts.gate
    booting = parts.first_boot is not None and parts.first_boot.result in {"running", "failed"}
    if gate is None or booting:
        return
    if not gate.running:
        said = next((u.said for u in parts.units or () if u.name == "nginx.service"), "")
        yield Problem(f"nginx does not run{_because(said)}", "sudo systemctl restart nginx")
    elif gate.answers is False:
        yield Problem(f"nginx does not answer{_because(gate.said)}", "sudo systemctl restart nginx")
    elif gate.accepts_key is False:
        yield Problem("nginx refuses this instance's API key", "sudo systemctl reload nginx")


def _model(parts: Parts) -> Iterator[Problem]:
    units = {unit.name: unit for unit in parts.units or ()}
    server, fetch = units.get("infinity.service"), units.get("infinity-model.service")
    if server is None:
        return
    told = server.said or (fetch.said if fetch else "")
    if fetch and fetch.active == "failed":
        yield Problem(f"the model could not be fetched{_because(fetch.said)}", _SERVER)
    elif server.active in {"failed", "inactive"}:
        yield Problem(
            f"the model server does not run{_because(told)}",
            "sudo systemctl restart infinity.service",
        )
    elif server.active == "active" and parts.model and parts.model.state != "ready":
        yield Problem("the model does not answer", "sudo systemctl restart infinity.service")
    elif server.restarts > MANY_RESTARTS:
        yield Problem(
            f"the model server was restarted {server.restarts} times{_because(told)}", _SERVER
        )
    model = parts.model
    if model and model.served and model.configured not in {None, *(s.id for s in model.served)}:
        yield Problem(
            f"{model.configured} is configured and not served",
            "sudo systemctl restart infinity.service",
        )


def _certificate(parts: Parts) -> Iterator[Problem]:
    found, ours = parts.certificate, "sudo systemctl restart infinity-firstboot nginx"
    if found is None:
        if parts.host is not None:
            reason = _because(parts.why_unknown("certificate"))
            yield Problem(f"there is no certificate to show{reason}", ours)
        return
    replace = "sudo infinity-set-certificate --cert FILE --key FILE"
    mend = "sudo infinity-renew" if found.maker == "instance" else replace
    if not found.key_matches:
        yield Problem("certificate and key do not belong together", mend)
    if clock.age(found.not_before) < 0:
        yield Problem(f"the certificate is not valid before {found.not_before[:10]}", mend)
    if found.days_left < 0:
        yield Problem(f"the certificate has expired on {found.not_after[:10]}", mend)
    elif found.days_left < DAYS_LEFT:
        yield Problem(f"the certificate expires in {found.days_left} days", mend)
    if parts.host and not found.covers_host:
        yield Problem(f"the certificate is not for {parts.host.name}", mend)


def _access(parts: Parts) -> Iterator[Problem]:
    if parts.host is None:
        return
    if parts.api_keys is None:
        reason = _because(parts.why_unknown("api_keys"))
        yield Problem(f"the API keys cannot be read{reason}", _START)
    elif parts.api_keys.count + parts.api_keys.unread == 0 and not (
        parts.login and parts.login.enabled
    ):
        yield Problem("there is no API key and no login", "sudo infinity-api-key add NAME")
    if parts.login is None:
        reason = _because(parts.why_unknown("login"))
        yield Problem(f"the logins cannot be read{reason}", _START)
    if parts.credentials_file and parts.credentials_file.untrue:
        wrong = ", ".join(parts.credentials_file.untrue)
        yield Problem(
            f"the credentials file is out of date: {wrong}",
            "sudo nano /root/infinity-credentials.txt",
        )


def _room(parts: Parts) -> Iterator[Problem]:
    for disk in parts.disks or ():
        least = min(LEAST_DISK, int(LEAST_SHARE * disk.size))
        if disk.free < least:
            yield Problem(
                f"{disk.path} is full: {disk.free // 1024**2} MiB are free",
                f"sudo du -xh -d2 {disk.path} | sort -h | tail -20",
            )
        if disk.inodes_free_percent < 100 * LEAST_SHARE:
            yield Problem(
                f"{disk.path} has no room for more files",
                f"sudo du -x --inodes -d2 {disk.path} | sort -n | tail -20",
            )
    memory = parts.memory
    if memory and memory.available < LEAST_SHARE * memory.size:
        yield Problem(
            f"memory is short: {memory.available // 1024**2} MiB are available",
            "ps -eo rss,comm --sort=-rss | head",
        )


def _upkeep(parts: Parts) -> Iterator[Problem]:
    updates = parts.updates
    if updates is None:
        return
    if updates.security and (updates.waiting_hours or 0) > PATIENCE_HOURS:
        yield Problem(
            f"{updates.security} security updates wait since {updates.waiting_hours:.0f} hours",
            "sudo unattended-upgrade --verbose",
        )
    if updates.reboot_required:
        yield Problem("an update takes effect with a reboot only", "sudo systemctl reboot")


def _because(said: str) -> str:
    """The first sentence of what is known about the cause."""
    text = said.removeprefix("infinity-firstboot: ").partition(" Hint:")[0].strip()
    return f": {text.rstrip('.')}" if text else ""
