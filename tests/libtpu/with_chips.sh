#!/bin/bash
# Runs a command where the host seems to have TPU chips, as in a TPU VM: on the PCI bus and below
# /dev/vfio. For PyTorch, which looks there before it loads libtpu.so. Needs root, for a mount
# namespace; nothing outside the command sees it.
#   with_chips.sh PCI_DEVICE_ID COUNT COMMAND…
set -eu
if [ "${WITH_CHIPS_INSIDE:-}" != 1 ]; then
  WITH_CHIPS_INSIDE=1 exec unshare --mount "$0" "$@"
fi
unset WITH_CHIPS_INSIDE
device=$1 count=$2
shift 2

own=$(mktemp -d)
mount -t tmpfs none "$own"
mkdir "$own/pci" "$own/dev" "$own/work"
for chip in $(seq 0 $((count - 1))); do
  function=$own/pci/0000:00:$(printf %02x $((chip + 4))).0
  mkdir "$function"
  echo 0x1ae0 >"$function/vendor"
  echo "$device" >"$function/device"
  ln -s "../../../kernel/iommu_groups/$chip" "$function/iommu_group"
done
mount --bind "$own/pci" /sys/bus/pci/devices
mount -t overlay none -o "lowerdir=/dev,upperdir=$own/dev,workdir=$own/work" /dev
mkdir -p /dev/vfio
for chip in $(seq 0 $((count - 1))); do : >"/dev/vfio/$chip"; done
exec "$@"
