"""One instance of the new AMI, launched as a buyer would, asked everything, and terminated."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal

from appliance.ami import guide
from appliance.ami.plan import Plan
from appliance.errors import ApplianceError
from appliance.run import Completed, run

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_ec2.type_defs import TagSpecificationTypeDef

INSTANCE_TYPE: Final = "m5.large"
READY_TIMEOUT = 600.0  # seconds from running to /readyz
PAUSE = 1.0
# What the guide has a buyer do before anything is changed, and its look at the controls.
STEPS = (2, 3, 4, 5, 6, 7, 11)
RECORDS = (
    "manifest.json",
    "sbom/server.cdx.json",
    "sbom/appliance.cdx.json",
    "sbom/system.cdx.json",
)


@dataclass(frozen=True)
class Instance:
    """One that answers SSH as ``ubuntu`` at ``address`` with the private key in ``key``."""

    address: str
    key: Path

    def ssh(self, script: str) -> Completed:
        # A new machine's host key is known to nobody; the network of the build is trusted.
        settings = {
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "BatchMode": "yes",
            "ConnectTimeout": "20",
        }
        options = [word for item in settings.items() for word in ("-o", "=".join(item))]
        argv = ["ssh", "-i", str(self.key), *options, f"ubuntu@{self.address}", "bash -s"]
        return run(argv, stdin=script, check=False, timeout=120)


def accept(plan: Plan, ec2: EC2Client, image: str) -> None:
    """Launch, wait for an embedding, run the guide's checks, fetch the records, terminate.

    Raises:
        ApplianceError: it did not get ready, or the guide's commands print something else.
    """
    with launched(plan, ec2, image) as instance:
        print(f"Waiting for https://{instance.address}/readyz ...", flush=True)
        wait_ready(instance.address)
        print("Running the guide's commands over SSH ...", flush=True)
        check_guide(instance)
        fetch_records(instance, plan.out)


@contextmanager
def launched(plan: Plan, ec2: EC2Client, image: str) -> Iterator[Instance]:
    """An instance without user data, as from "Launch from Website"; removed with all it needed."""
    group = ec2.create_security_group(
        GroupName=f"{plan.temporary}-accept",
        Description="An AMI being tried; removed after",
        TagSpecifications=[_tagged(plan, "security-group")],
    )["GroupId"]
    for port in (22, 443):
        ec2.authorize_security_group_ingress(
            GroupId=group, IpProtocol="tcp", FromPort=port, ToPort=port, CidrIp=plan.ssh_cidr
        )
    with TemporaryDirectory(prefix="infinity-ami-") as folder:
        key = Path(folder) / "key"
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", plan.temporary, "-f", key])
        ec2.import_key_pair(
            KeyName=f"{plan.temporary}-accept",
            PublicKeyMaterial=key.with_suffix(".pub").read_bytes(),
        )
        started = ec2.run_instances(
            ImageId=image,
            InstanceType=INSTANCE_TYPE,
            MinCount=1,
            MaxCount=1,
            KeyName=f"{plan.temporary}-accept",
            SecurityGroupIds=[group],
            TagSpecifications=[_tagged(plan, "instance"), _tagged(plan, "volume")],
        )["Instances"][0]["InstanceId"]
        ec2.get_waiter("instance_running").wait(InstanceIds=[started])
        told = ec2.describe_instances(InstanceIds=[started])["Reservations"][0]["Instances"][0]
        yield Instance(told.get("PublicIpAddress") or told["PrivateIpAddress"], key)


def _tagged(
    plan: Plan, kind: Literal["instance", "volume", "security-group"]
) -> TagSpecificationTypeDef:
    return {"ResourceType": kind, "Tags": plan.tags}


def wait_ready(address: str, timeout: float = READY_TIMEOUT, port: int = 443) -> None:
    """Return once /readyz is 200: an embedding came back.

    Raises:
        ApplianceError: not within ``timeout`` seconds.
    """
    # Any certificate: this sends no secret, and only the instance knows its own.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    deadline = time.monotonic() + timeout
    last = "no answer"
    while time.monotonic() < deadline:
        connection = http.client.HTTPSConnection(address, port, timeout=5, context=context)
        try:
            connection.request("GET", "/readyz")
            status = connection.getresponse().status
            if status == http.client.OK:
                return
            last = f"status {status}"
        except (OSError, http.client.HTTPException) as error:
            last = str(error) or type(error).__name__
        finally:
            connection.close()
        time.sleep(PAUSE)
    raise ApplianceError(
        f"https://{address}/readyz was not 200 within {timeout:g} s ({last}).",
        "Launch the AMI by hand and read journalctl -u infinity-firstboot -u infinity -u nginx.",
    )


def check_guide(instance: Instance) -> None:
    """Every command block of the guide that changes nothing prints what the guide shows."""
    told = instance.ssh("sudo grep -E '^INFINITY_(HOST|MODEL)=' /root/infinity-credentials.txt")
    values = dict(line.split("=", 1) for line in told.stdout.splitlines() if "=" in line)
    if not {"INFINITY_HOST", "INFINITY_MODEL"} <= values.keys():
        raise ApplianceError(f"SSH to the instance gave no credentials: {told.stderr.strip()}")
    for block in guide.blocks(guide.GUIDE.read_text()):
        if block.step not in STEPS or block.language != "console" or block.expected is None:
            continue
        done = instance.ssh(block.code)
        wrong = guide.difference(
            block.expected,
            done.stdout,
            host=values["INFINITY_HOST"],
            model=values["INFINITY_MODEL"],
        )
        if wrong:
            raise ApplianceError(f"The guide's {block.name} prints something else:\n{wrong}")
        print(f"  {block.name}", flush=True)


def fetch_records(instance: Instance, out: Path) -> None:
    """The image's manifest and bills of materials, to be kept beside the AMI."""
    for name in RECORDS:
        done = instance.ssh(f"cat /usr/share/infinity/{name}")
        if done.returncode != 0:
            raise ApplianceError(f"The image has no {name}: {done.stderr.strip()}")
        (out / Path(name).name).write_text(done.stdout)
