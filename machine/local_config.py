"""All that a local machine has and an EC2 instance from the same image has not.

Each file is written to the machine's own layer when it starts; the image has none of them.

* cloud-init's EC2 datasource, told that this is AWS. On EC2 it recognises that by DMI, which is
  not consulted in a container, and unrecognised it would ask for metadata without a token.
  It also skips the early stage that sends for DHCP; waiting for metadata ends after 10 s, not 120.
* cloud-init leaves the network alone, because it is ready before systemd starts, and does not
  watch for more interfaces, because udev does not run in a container; /etc/hosts gets the
  machine's name, which on EC2 the VPC's resolver would know.
* /etc/resolv.conf names no server: beyond the host nothing can be reached.
* /etc/hosts, and /etc/hostname until cloud-init sets it.
* Where the host's CPU controller is not to be had in a container (control groups v1), the slice's
  CPUWeight= does nothing; the kernel's groups of a session stand in for it, at the same proportion.
* nspawn itself: no kernel, no boot loader, no console login, /dev and /sys reduced; the clock,
  kernel settings and modules are the host's.
"""

from __future__ import annotations

from appliance.files import write_atomic
from machine.names import Place

WRITTEN = "# Written by the local machine, not part of the image; see machine/local_config.py.\n"

CLOUD_INIT = """\
datasource_list: [ LocalMachine, None ]
datasource:
  Ec2:
    strict_id: false
    max_wait: 10
    timeout: 5
network: {config: disabled}
updates: {network: {when: [boot-new-instance]}}
manage_etc_hosts: localhost
"""

DATASOURCE = '''\
"""The EC2 datasource where DMI cannot say that this is AWS, and no DHCP is needed."""

from cloudinit import sources
from cloudinit.sources import DataSourceEc2


class DataSourceLocalMachine(DataSourceEc2.DataSourceEc2):
    def _get_cloud_name(self):
        return DataSourceEc2.CloudNames.AWS


def get_datasource_list(depends):
    needs = (sources.DEP_FILESYSTEM, sources.DEP_NETWORK)
    return sources.list_from_depends(depends, [(DataSourceLocalMachine, needs)])
'''

# The nice value of a session weighs 1.25 a step: 9.3 times as much as the others, for ten times.
CPU_WEIGHT = """\
[Service]
ExecStartPost=+/bin/sh -c 'grep -qw cpu /sys/fs/cgroup/cgroup.controllers \
    || echo -10 >/proc/$MAINPID/autogroup || :'
"""

HOSTS = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"

FILES = {
    "etc/cloud/cloud.cfg.d/99-zz-local-machine.cfg": WRITTEN + CLOUD_INIT,
    "usr/lib/python3/dist-packages/cloudinit/sources/DataSourceLocalMachine.py": (
        WRITTEN + DATASOURCE
    ),
    "etc/resolv.conf": WRITTEN,
    "etc/systemd/system/infinity.service.d/99-local-machine.conf": WRITTEN + CPU_WEIGHT,
}


def write(place: Place) -> None:
    """Write the files into the root filesystem, which is mounted and not running."""
    first_time = {"etc/hosts": WRITTEN + HOSTS, "etc/hostname": f"{place.name}\n"}
    files = FILES if (place.folder / "configured").exists() else FILES | first_time
    for name, text in files.items():
        path = place.merged / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text, 0o644)
    write_atomic(place.folder / "configured", "", 0o600)
