#!/bin/sh
# Mounts a stack of layers where nobody else sees it, then becomes a command.
#
#   enter-layer.sh LOG OPTIONS MOUNTPOINT COMMAND [ARGUMENT...]
#
# Called below `unshare --mount`: the mount belongs to this process alone and goes when it
# ends, however it ends. What the command prints goes into LOG.
set -eu
log=$1
options=$2
mountpoint=$3
shift 3
exec >"$log" 2>&1
mount -t overlay -o "$options" overlay "$mountpoint"
exec "$@"
