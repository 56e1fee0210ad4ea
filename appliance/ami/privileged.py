"""The programs that may lift their caller, each because the distribution's own parts need it.

Paths as on a system with merged /usr. Debian 12, Debian 13 and Ubuntu 24.04 together: what one
of them does not have is simply not there.
"""

from __future__ import annotations

SETUID = frozenset(
    {
        "/usr/bin/chfn",  # accounts (passwd)
        "/usr/bin/chsh",
        "/usr/bin/gpasswd",
        "/usr/bin/newgrp",
        "/usr/bin/passwd",
        "/usr/bin/su",
        "/usr/bin/sudo",  # the operator's way to root
        "/usr/bin/mount",  # mounts that fstab gives to users
        "/usr/bin/umount",
        "/usr/bin/fusermount3",
        "/usr/lib/dbus-1.0/dbus-daemon-launch-helper",  # 0750 root:messagebus
        "/usr/lib/openssh/ssh-keysign",
        "/usr/lib/polkit-1/polkit-agent-helper-1",  # Ubuntu's cloud image
        "/usr/bin/pkexec",
        "/usr/lib/snapd/snap-confine",
    }
)
SETGID = frozenset(
    {
        "/usr/bin/chage",  # group shadow
        "/usr/bin/expiry",
        "/usr/sbin/unix_chkpwd",
        "/usr/sbin/pam_extrausers_chkpwd",
        "/usr/bin/crontab",  # group crontab
        "/usr/bin/ssh-agent",  # group _ssh: no ptrace by its user
        "/usr/bin/wall",  # group tty
        "/usr/bin/write",
        "/usr/bin/write.ul",
        "/usr/lib/x86_64-linux-gnu/utempter/utempter",  # group utmp
    }
)
CAPABLE = frozenset(
    {
        "/usr/bin/ping",
        "/usr/bin/mtr-packet",
        "/usr/lib/x86_64-linux-gnu/gstreamer1.0/gstreamer-1.0/gst-ptp-helper",
        "/usr/lib/snapd/snap-confine",
    }
)
