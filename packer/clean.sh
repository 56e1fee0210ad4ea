#!/bin/bash
# Removes everything that must not be in an image: what is secret, what identifies this
# machine, what the build left. Run as root, last, in the machine whose disk is captured.
# AWS Marketplace's requirements for AMIs are the source of most of it.
set -euo pipefail
shopt -s nullglob dotglob

if [ "$(id -u)" -ne 0 ]; then
    echo "clean.sh changes the whole system. Hint: run it as root, in the machine to be captured." >&2
    exit 1
fi

# Where the system runs (EC2), services go on writing until the power is off: the journal and
# the system log, a seed for the next boot, an agent's registration. They stop here, or write
# where nothing is kept.
stop_writers() {
    [ -d /run/systemd/system ] || return 0
    systemctl stop rsyslog.service syslog.socket unattended-upgrades.service cron.service \
        apt-daily.timer apt-daily-upgrade.timer snap.amazon-ssm-agent.amazon-ssm-agent.service \
        infinity.service nginx.service 2>/dev/null || true
    install -d /run/systemd/journald.conf.d /run/systemd/system/systemd-random-seed.service.d
    printf '[Journal]\nStorage=volatile\n' >/run/systemd/journald.conf.d/clean.conf
    printf '[Service]\nExecStop=\n' >/run/systemd/system/systemd-random-seed.service.d/clean.conf
    systemctl daemon-reload
    systemctl restart systemd-journald.service
}

remove_logins() {
    rm -f /root/.ssh/authorized_keys* /home/*/.ssh/authorized_keys*
    # Not even a hash: every account is locked, root's with its shell kept for sudo -i.
    local user hash
    while IFS=: read -r user hash _; do
        case $hash in
            '!'* | '*') ;;
            *) usermod --password '!' "$user" ;;
        esac
    done </etc/shadow
    usermod --password '!' root
    rm -f /etc/shadow- /etc/gshadow- /etc/passwd- /etc/group- /etc/subuid- /etc/subgid-
}

remove_keys() {
    rm -f /etc/ssh/ssh_host_*
    rm -f /etc/ssl/private/* /etc/ssl/certs/ssl-cert-snakeoil.pem
    rm -f /etc/ssl/infinity/* /etc/nginx/infinity-apikey.map /etc/nginx/.infinity.htpasswd \
        /etc/nginx/infinity-site.conf /root/infinity-credentials.txt /etc/cloudimg/infinity-hostname
    rm -rf /var/lib/infinity-appliance/* /var/lib/infinity-acme/*
    rm -rf /etc/letsencrypt/{accounts,archive,csr,keys,live,renewal}
    # Packages' own tests carry keys too. dpkg.cfg.d/60infinity keeps later ones away.
    rm -rf /usr/lib/python3/dist-packages/*/tests/testdata
}

# systemd makes a new machine-id from an empty file. It is left empty and not "uninitialized":
# that would make the next boot a first boot to systemd, which presets every unit again.
remove_identity() {
    : >/etc/machine-id
    rm -f /var/lib/dbus/machine-id /etc/hostname
    rm -f /var/lib/systemd/random-seed /var/lib/systemd/credential.secret /boot/efi/loader/random-seed
    rm -rf /var/lib/dhcp/* /var/lib/dhcpcd/* /var/lib/NetworkManager/* /run/systemd/netif/leases/*
    rm -f /etc/netplan/50-cloud-init.yaml /etc/network/interfaces.d/50-cloud-init
    # A name server of the build is none of the instance's; a link is the distribution's own.
    [ -L /etc/resolv.conf ] || rm -f /etc/resolv.conf 2>/dev/null || : >/etc/resolv.conf
}

remove_traces() {
    cloud-init clean --logs --seed >/dev/null
    rm -rf /var/lib/cloud/*
    local home
    for home in /root /home/*; do
        rm -rf "$home"/.*_history "$home"/.cache "$home"/.lesshst "$home"/.viminfo \
            "$home"/.wget-hsts "$home"/.sudo_as_admin_successful "$home"/.config/pip "$home"/.ssh
    done
    find /var/log -type f -delete
    rm -rf /var/log/journal/* /tmp/* /var/tmp/* /var/crash/* /var/mail/* /var/spool/cron/crontabs/*
    rm -rf /var/lib/amazon/ssm/* /var/snap/amazon-ssm-agent/*/*
}

remove_packages_caches() {
    apt-get clean
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/lib/dpkg/*-old
}

# The last word has the scanner: a build that leaves something behind fails here.
check() {
    /opt/infinity/appliance/venv/bin/python -I -m appliance.ami check /
}

stop_writers
remove_logins
remove_keys
remove_identity
remove_traces
remove_packages_caches
check
