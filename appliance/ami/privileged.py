"""The programs that may lift their caller: what packer/provision.d/50-hardening.sh leaves.

Paths as on a system with merged /usr.
"""

from __future__ import annotations

SETUID = frozenset(
    {
        "/usr/bin/sudo",  # the operator's way to root
        "/usr/lib/snapd/snap-confine",  # Ubuntu's Systems Manager agent is a snap
    }
)
SETGID = frozenset({"/usr/sbin/unix_chkpwd"})  # group shadow: how PAM looks up an account
CAPABLE = frozenset({"/usr/bin/ping", "/usr/lib/snapd/snap-confine"})
