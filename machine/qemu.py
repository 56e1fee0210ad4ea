"""QEMU as the computer that a disk boots in: what runs the guest's code, and the command."""

from __future__ import annotations

import shutil
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.run import run
from machine import network
from machine.build import Image
from machine.names import Place

PROGRAM = "qemu-system-x86_64"
FIRMWARE = Path("/usr/share/OVMF/OVMF_CODE_4M.fd")
TOOLS = {PROGRAM: "qemu-system-x86", str(FIRMWARE): "ovmf"}
MEMORY_MIB = 4096
CPUS = 2
PORTS = (22, 80, 443)
KVM = ("-accel", "kvm", "-cpu", "host")
# Emulated, one host thread a CPU. Without five-level page tables, which cost a step each time.
TCG = ("-accel", "tcg,thread=multi,tb-size=1024", "-cpu", "max,la57=off")
TRIAL_SECONDS = 15.0


def accelerator(image: Image) -> tuple[str, ...]:
    """KVM where a kernel really runs under it, else emulation.

    /dev/kvm may be there and a guest hang in it, so the image's own kernel is tried, without a
    disk: it panics for want of a root filesystem within two seconds.
    """
    if not Path("/dev/kvm").exists():
        return TCG
    (kernel,) = (path for layer in image.layers for path in layer.glob("boot/vmlinuz-*"))
    words = [*_computer(KVM), "-serial", "stdio", "-no-reboot", "-kernel", str(kernel),
             "-append", "console=ttyS0 panic=-1"]  # fmt: skip
    try:
        return KVM if "Kernel panic" in run(words, timeout=TRIAL_SECONDS).stdout else TCG
    except ApplianceError:
        return TCG


def boot_argv(place: Place, disk: Path, index: int, accel: tuple[str, ...]) -> list[str]:
    """The whole command: a computer that says it is an EC2 instance, in the machine's network.

    QEMU's own network hands out the address and forwards both ways by sockets of the namespace
    that QEMU runs in. From there the metadata service can be reached and nothing else.

    Args:
        place: the machine's.
        disk: what it boots from, and writes to.
        index: of its network.
        accel: from ``accelerator``.
    """
    address = network.machine_address(index)
    forwards = ",".join(f"hostfwd=tcp:{address}:{port}-:{port}" for port in PORTS)
    return [
        *("setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", place.inside),
        *_computer(accel),
        *("-serial", f"file:{place.console}"),
        *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={FIRMWARE}"),
        *("-drive", f"if=pflash,unit=1,format=raw,file={firmware_settings(place)}"),
        *("-drive", f"if=virtio,format=raw,file={disk},cache=unsafe,discard=unmap"),
        *("-netdev", f"user,id=net,{forwards}"),
        *("-device", f"virtio-net-pci,netdev=net,mac={network.mac(index)}"),
        *("-device", "virtio-rng-pci"),
    ]


def identity(instance_id: str) -> list[str]:
    """What Nitro's firmware tells of an instance, by which cloud-init knows where it is."""
    uuid = f"ec2{instance_id[-5:]}-{instance_id[-9:-5]}-4000-8000-{instance_id[-12:]}"
    return [
        *("-smbios", f"type=1,manufacturer=Amazon EC2,product=m5.large,uuid={uuid},serial={uuid}"),
        *("-smbios", f"type=2,manufacturer=Amazon EC2,asset={instance_id}"),
        *("-smbios", "type=3,manufacturer=Amazon EC2,asset=Amazon EC2"),
    ]


def firmware_settings(place: Place) -> Path:
    return place.folder / "firmware-settings.fd"


def new_firmware_settings(place: Place) -> None:
    shutil.copy(FIRMWARE.with_name("OVMF_VARS_4M.fd"), firmware_settings(place))


def _computer(accel: tuple[str, ...]) -> list[str]:
    size = ("-smp", str(CPUS), "-m", str(MEMORY_MIB))
    return [PROGRAM, "-machine", "q35", *accel, *size, "-display", "none", "-monitor", "none"]
