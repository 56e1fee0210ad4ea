#!/bin/sh
# The golden-vector check: the model that was laid down, in the environment that serves it, gives
# the vector that is known for one text. A wrong file, library or kernel shows here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=$(mktemp -d /run/infinity-golden-XXXXXX)
trap 'rm -rf "$home"' EXIT
HOME=$home HF_HOME=/var/lib/infinity/hf HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 \
    /opt/infinity/venv/bin/python -I "$here/golden.py" "$here/golden.json" /etc/infinity/infinity.env
