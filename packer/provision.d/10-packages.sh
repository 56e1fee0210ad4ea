# shellcheck shell=bash
# What the distribution provides, by name; its versions are kept fresh by security updates.

export DEBIAN_FRONTEND=noninteractive

# No package may start its service while the image is being made: nginx would listen with
# the packaged configuration, and sshd would be restarted below our feet. The answer 101
# is "forbidden" (invoke-rc.d's policy interface).
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
trap 'rm -f /usr/sbin/policy-rc.d' EXIT

packages=(
    # the appliance
    nginx apache2-utils python3 python3-venv openssl ca-certificates
    # the instance
    cloud-init openssh-server sudo dbus libpam-systemd udev
    # certificates by ACME (Let's Encrypt), when the operator asks for one
    certbot
    # its upkeep
    unattended-upgrades needrestart debsums logrotate
    # who touches what, and what may
    auditd apparmor libpam-passwdqc libpam-tmpdir
    # what the guide's commands and an operator at the prompt call
    curl jq iproute2 procps less nano
)
options=(-qq -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold)

apt-get -qq update
apt-get "${options[@]}" --yes dist-upgrade
apt-get "${options[@]}" --yes --no-install-recommends install "${packages[@]}"
