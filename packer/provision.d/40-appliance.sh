# shellcheck shell=bash
# Our own files: code, units, nginx and system configuration; then what they ask for.

lib=/opt/infinity/appliance/lib
python=/opt/infinity/appliance/venv/bin/python

copy_code() {
    rm -rf "$lib"
    install -d "$lib"
    cp -r "$REPO/appliance" "$REPO/firstboot" "$REPO/templates" "$lib/"
    find "$lib" -name __pycache__ -prune -exec rm -rf {} +
    # Now, because the services may not write there. One set serves both environments:
    # they share the system's python3.
    "$python" -I -m compileall -q "$lib"
}

copy_configuration() {
    cp -r "$REPO/systemd/system" "$REPO/systemd/system-preset" /usr/lib/systemd/
    cp -r "$REPO/systemd/sysusers.d" "$REPO/systemd/tmpfiles.d" /usr/lib/
    # local.conf is for a first look without a machine.
    cp -r "$REPO/nginx/." /etc/nginx/
    rm -f /etc/nginx/local.conf /etc/nginx/sites-enabled/default
    cp -r "$REPO/packer/files/." /
    # The guide that units and the login message refer to, and what programs read about us.
    install -d /usr/share/doc/infinity-appliance
    cp "$REPO"/docs/* /usr/share/doc/infinity-appliance/
}

# Each command module becomes infinity-NAME on the operator's path.
write_commands() {
    local module name
    rm -f /usr/sbin/infinity-*
    for module in "$lib"/appliance/commands/[a-z]*.py; do
        [ -e "$module" ] || continue
        name=$(basename "$module" .py)
        printf '#!/bin/sh\nexec %s -I -m appliance.commands.%s "$@"\n' "$python" "$name" \
            >"/usr/sbin/infinity-${name//_/-}"
        chmod 755 "/usr/sbin/infinity-${name//_/-}"
    done
}

# The model folder belongs to the server, which adds what the operator asks for; the files
# that the image came with stay root's, so the server cannot change them.
give_folders() {
    systemd-sysusers
    systemd-tmpfiles --create --exclude-prefix=/dev --exclude-prefix=/proc \
        --exclude-prefix=/run --exclude-prefix=/sys --exclude-prefix=/tmp
    find /var/lib/infinity -type d -exec chown infinity:infinity {} +
}

enable_units() {
    local unit
    for unit in /usr/lib/systemd/system/infinity*.{service,path,timer}; do
        [ -e "$unit" ] || continue
        systemctl preset "$(basename "$unit")"
    done
    systemctl preset nginx.service
}

copy_code
copy_configuration
write_commands
give_folders
enable_units
