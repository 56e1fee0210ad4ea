# shellcheck shell=bash
# Bills of materials in CycloneDX, of both virtual environments and of the distribution's
# packages, made by CycloneDX's own tool from what is installed, not from what was asked for.

version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# In memory: the tool is never part of the image's disk.
tools=/run/infinity-sbom
bills=/usr/share/infinity/sbom

install_tools() {
    local from=()
    if [ -n "${WHEELHOUSE:-}" ]; then
        from=(--no-index --find-links "$WHEELHOUSE/sbom")
    fi
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir \
        --only-binary :all: --no-deps --require-hashes "${from[@]}" \
        --requirement "$REPO/packer/locks/sbom-$version.txt"
}

# environment NAME VENV
environment() {
    "$tools/bin/cyclonedx-py" environment --output-reproducible --spec-version 1.6 \
        --output-format JSON --output-file "$bills/$1.cdx.json" "$2/bin/python" 2>/dev/null
}

trap 'rm -rf "$tools"' EXIT
install_tools
rm -rf "$bills"
install -d "$bills"
environment server /opt/infinity/venv
environment appliance /opt/infinity/appliance/venv
"$tools/bin/python" -I "$REPO/packer/sbom_system.py" >"$bills/system.cdx.json"
chmod 644 "$bills"/*
