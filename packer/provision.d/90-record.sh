# shellcheck shell=bash
# What this image was made of, for whoever has to tell one from another.

python3 -I "$REPO/packer/record.py" "$REPO" "${COMMIT:-unknown}" >/usr/share/infinity/manifest.json
chmod 644 /usr/share/infinity/manifest.json
