#!/bin/sh
# Copies a stack of layers into the two partitions of a disk image. Called below `unshare --mount`,
# so that the mount goes when this ends, however it ends.
#
#   fill-disk.sh OPTIONS MOUNTPOINT DISK LABEL ROOT-BYTE ROOT-KIB ESP-BYTE ESP-SECTORS
set -eu
mount -t overlay -o "$1" overlay "$2"
mkfs.ext4 -q -F -b 4096 -m 1 -L "$4" -E "offset=$5,root_owner=0:0" -d "$2" "$3" "${6}k"
export MTOOLS_SKIP_CHECK=1
mformat -i "$3@@$7" -F -T "$8" -v ESP ::
mcopy -i "$3@@$7" -s "$2/boot/efi/EFI" ::
