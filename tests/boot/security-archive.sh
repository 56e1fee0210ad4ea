#!/bin/bash
# Makes, in a machine, an archive that describes itself as the distribution's security archive does.
# Its one package is nginx as it is installed, under another version. Beside it is the
# configuration with which apt and unattended-upgrades see no other archive.
#
#   security-archive.sh VERSION
set -euo pipefail
version=$1
archive=/tmp/archive
tree=$archive/tree

rm -rf "$archive"
mkdir -p "$tree/DEBIAN"
cd "$archive"

dpkg -L nginx | while read -r path; do [ -d "$path" ] || echo "${path#/}"; done >files
tar -C / -cf - -T files | tar -C "$tree" -xf -
dpkg-query --status nginx | grep -vE '^(Status|Conffiles| /)' \
    | sed -E "s/^Version:.*/Version: $version/; s/nginx-common \([^)]*\)/nginx-common/g" \
        >"$tree/DEBIAN/control"
for script in preinst postinst prerm postrm; do
    if [ -e "/var/lib/dpkg/info/nginx.$script" ]; then
        cp -p "/var/lib/dpkg/info/nginx.$script" "$tree/DEBIAN/$script"
    fi
done
dpkg-deb --build --root-owner-group -Znone "$tree" nginx.deb
rm -r "$tree" files

digest() {
    sha256sum "$1" | cut -d ' ' -f 1
}

{
    dpkg-deb -f nginx.deb
    echo "Filename: ./nginx.deb"
    echo "Size: $(stat -c %s nginx.deb)"
    echo "SHA256: $(digest nginx.deb)"
} >Packages

# shellcheck source=/dev/null
. /etc/os-release
if [ "$ID" = ubuntu ]; then
    origin=Ubuntu label=Ubuntu suite=$VERSION_CODENAME-security codename=$VERSION_CODENAME
else
    origin=Debian label=Debian-Security suite=stable-security codename=$VERSION_CODENAME-security
fi
{
    printf 'Origin: %s\nLabel: %s\nSuite: %s\n' "$origin" "$label" "$suite"
    printf 'Codename: %s\nDate: %s\n' "$codename" "$(date -Ru)"
    printf 'SHA256:\n %s %s Packages\n' "$(digest Packages)" "$(stat -c %s Packages)"
} >Release

echo "deb [trusted=yes] file:$archive ./" >sources.list
printf 'Dir::Etc::sourcelist "%s";\nDir::Etc::sourceparts "-";\n' "$archive/sources.list" >apt.conf
