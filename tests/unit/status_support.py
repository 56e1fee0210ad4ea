"""Reports as they are on a healthy instance, to be changed one part at a time."""

from __future__ import annotations

from appliance.status.report import (
    ApiKey,
    ApiKeys,
    Certificate,
    CredentialsFile,
    Disk,
    FirstBoot,
    Gate,
    GateLog,
    Host,
    Instance,
    Listener,
    Login,
    Memory,
    Model,
    Parts,
    Reach,
    Requests,
    Served,
    Unit,
    Updates,
)

GIB = 1024**3
MOMENT = "2026-11-30T08:00:00Z"


def unit(name: str, active: str = "active", said: str = "", restarts: int = 0) -> Unit:
    return Unit(name, active, "running", "success", restarts, MOMENT, said)


HEALTHY = Parts(
    instance=Instance("i-0abc", "m5.large", "i-0abc"),
    host=Host("a.example.com", "https://a.example.com/", (), follows_metadata=True),
    certificate=Certificate(
        "CN=a.example.com,O=cloudimg",
        "CN=a.example.com,O=cloudimg",
        "2020-01-01T00:00:00Z",
        "2029-03-05T08:00:00Z",
        825,
        "instance",
        covers_host=True,
        key_matches=True,
    ),
    model=Model("owner/name", (Served("owner/name", ("embed",)),), "ready"),
    first_boot=FirstBoot("success", MOMENT, 1.2, ""),
    gate=Gate(running=True, answers=True, refuses_strangers=True, accepts_key=True, said=""),
    ports=(
        Listener("tcp", "0.0.0.0", 443, "nginx", beyond_loopback=True, expected=True),  # noqa: S104
    ),
    egress=(Reach("169.254.169.254", "blocked"), Reach("fd00:ec2::254", "no route")),
    login=Login(enabled=True, users=("admin",)),
    api_keys=ApiKeys(2, (ApiKey("unnamed", None), ApiKey("search", MOMENT)), 0),
    credentials_file=CredentialsFile(present=True, untrue=()),
    requests=Requests(MOMENT, 10, 8, 1, 1, 12.5, 80.0),
    gate_log=GateLog(MOMENT, 12, 2, 1),
    disks=(Disk("/", 50 * GIB, 30 * GIB, 90),),
    memory=Memory(8 * GIB, 5 * GIB, GIB, 6 * GIB),
    updates=Updates(0, MOMENT, None, reboot_required=False),
    units=(
        unit("infinity-firstboot.service"),
        unit("infinity-model.service", "inactive"),
        unit("infinity.service"),
        unit("nginx.service"),
    ),
    change_pending=False,
)
