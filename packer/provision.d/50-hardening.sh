# shellcheck shell=bash
# What the distribution leaves open and a file in packer/files cannot close.

# Programs that keep another user's rights: sudo is how the operator works, unix_chkpwd how PAM
# looks up an account, snap-confine how Ubuntu's Systems Manager agent starts. What dpkg knows as
# an override stays so through updates.
NEEDED=(/usr/bin/sudo /usr/sbin/unix_chkpwd /usr/lib/snapd/snap-confine)

strip_setuid() {
    local file needed
    while IFS= read -r file; do
        needed=$(printf '%s\n' "${NEEDED[@]}" | grep -cxF "$file" || true)
        if [ "$needed" -eq 0 ]; then
            # Forced: a package may have made an override of its own.
            dpkg-statoverride --force-statoverride-add --update --add \
                "$(stat -c %U "$file")" "$(stat -c %G "$file")" \
                "0$(stat -c %a "$file" | tail -c 4)" "$file"
        fi
    done < <(find / -xdev -type f -perm /6000 -not -path '/run/*' -not -path '/proc/*')
}

# What dpkg.cfg.d/infinity excludes may be there from before.
remove_excluded() {
    local pattern
    while IFS='=' read -r _ pattern; do
        # shellcheck disable=SC2086 # a pattern of names
        rm -f $pattern
    done < <(grep ^path-exclude= /etc/dpkg/dpkg.cfg.d/infinity)
}

# A compiler is what an intruder builds the next step with. One that came with the base image or a
# dependency stops the build.
refuse_compilers() {
    local name
    for name in cc gcc c++ g++ clang tcc as ld make go rustc javac; do
        if command -v "$name" >/dev/null; then
            echo "$(command -v "$name") is a compiler. Hint: find out which package wants it." >&2
            exit 1
        fi
    done
}

# set_login_default NAME VALUE: one line of login.defs, there already or not.
set_login_default() {
    sed -i -E "/^#? *$1\b/d" /etc/login.defs
    printf '%s %s\n' "$1" "$2" >>/etc/login.defs
}

# Accounts have no passwords; one that an operator sets (for EC2's serial console) is hashed well.
defaults_of_logins() {
    set_login_default UMASK 027
    set_login_default HOME_MODE 0750
    set_login_default SHA_CRYPT_MIN_ROUNDS 65536
    set_login_default SHA_CRYPT_MAX_ROUNDS 65536
    set_login_default YESCRYPT_COST_FACTOR 7
}

close_folders() {
    local path
    for path in /etc/crontab /etc/cron.allow /etc/at.allow /etc/ssh/sshd_config; do
        [ ! -e "$path" ] || chmod 600 "$path"
    done
    for path in /etc/cron.d /etc/cron.hourly /etc/cron.daily /etc/cron.weekly /etc/cron.monthly; do
        [ ! -d "$path" ] || chmod 700 "$path"
    done
    chmod 750 /etc/sudoers.d
    chmod 440 /etc/sudoers.d/infinity
    visudo --check --quiet
    [ ! -d /etc/audit ] || chmod -R u=rwX,g=rX,o= /etc/audit
}

# Ubuntu's crash reporter would take the kernel's core_pattern for itself.
no_crash_reports() {
    systemctl mask apport.service apport-autoreport.path apport-forward.socket
}

# Its helper, without the setuid bit, would make /tmp/user the first user's.
no_temporary_folders_by_pam() {
    pam-auth-update --package --remove tmpdir
}

strip_setuid
remove_excluded
refuse_compilers
defaults_of_logins
close_folders
no_crash_reports
no_temporary_folders_by_pam
