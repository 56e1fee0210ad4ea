#!/bin/bash
# What a disk needs and a container does not: a kernel with its initramfs, a boot loader, a network.
# On EC2 the source image has all four. Run inside, above the appliance's layer.
#
#   kernel-layer.sh KERNEL-PACKAGE
#
# /boot/efi then holds what belongs on the EFI system partition.
set -euo pipefail
shopt -s nullglob
export DEBIAN_FRONTEND=noninteractive

apt-get -qq update
apt-get -qq --yes --no-install-recommends install \
    "$1" initramfs-tools grub-efi-amd64-bin systemd-resolved

# Each instance asks its own network for a name server; this build's is none of its business.
rm -f /etc/.resolv.conf.systemd-resolved.bak
echo 'L+! /etc/resolv.conf - - - - ../run/systemd/resolve/stub-resolv.conf' \
    >/etc/tmpfiles.d/infinity-disk.conf

# cloud-init writes networkd's configuration where nothing else manages the network.
systemctl enable systemd-networkd.service systemd-resolved.service

# Mounted by label, as in Ubuntu's own images; the label is machine/disk.py's.
echo 'LABEL=infinity-root / ext4 errors=remount-ro 0 1' >/etc/fstab

# The kernel's packages keep these two links on the newest kernel, so a security update of it needs
# no word to the boot loader.
cat >/tmp/grub.cfg <<'END'
insmod part_gpt
insmod ext2
search --no-floppy --label infinity-root --set=root
linux /vmlinuz root=LABEL=infinity-root ro console=tty0 console=ttyS0,115200 quiet
initrd /initrd.img
boot
END
install -d /boot/efi/EFI/BOOT
grub-mkstandalone --format=x86_64-efi --output=/boot/efi/EFI/BOOT/BOOTX64.EFI \
    --install-modules="part_gpt ext2 linux search search_label normal" \
    --fonts= --locales= --themes= /boot/grub/grub.cfg=/tmp/grub.cfg
[ -e /vmlinuz ] && [ -e /initrd.img ]
