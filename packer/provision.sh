#!/bin/bash
# Turns a plain Debian 12, Debian 13 or Ubuntu 24.04 into the appliance. Run as root, inside it.
#
#   packer/provision.sh            every phase of provision.d, in order
#   packer/provision.sh 40-appliance …   these phases only
#
# A phase may run again at any time: it brings its part to the described state. clean.sh
# comes last, when the disk is about to become an image.
#
# Environment:
#   WHEELHOUSE      folder with server/, appliance/ and torch/ of wheels; then pip uses no
#                   network. Unset, pip downloads by its own configuration.
#   TORCH_VERSION   2.14.1+cpu unless set; always a CPU build.
#   MODEL_MANIFEST  a file of packer/models; bge-small-en-v1.5.json unless set.
#   MODEL_FILES     folder with the model's files; unset, they come from huggingface.co.
set -euo pipefail

REPO=$(cd "$(dirname "$0")/.." && pwd)
export REPO
# Root's umask may be stricter than what services that are not root have to read.
umask 022

if [ "$(id -u)" -ne 0 ]; then
    echo "provision.sh changes the whole system. Hint: run it as root, in the machine to be." >&2
    exit 1
fi

if [ $# -eq 0 ]; then
    cd "$REPO/packer/provision.d"
    set -- [0-9]*.sh
fi

for phase in "$@"; do
    phase=${phase%.sh}
    started=$SECONDS
    echo "provision: $phase"
    bash -euo pipefail "$REPO/packer/provision.d/$phase.sh"
    echo "provision: $phase done in $((SECONDS - started)) s"
done
