"""A TPU VM's chips as programs search for them: on the PCI bus and below /dev."""
import pytest

# What PyTorch, JAX and tpu-info do.
SCAN = r"""
import collections, glob, os
found = collections.Counter()
for vendor in glob.glob("/sys/bus/pci/devices/*/vendor"):
    if open(vendor).read().strip() == "0x1ae0":
        found[tuple(open(os.path.dirname(vendor) + "/" + name).read().strip()
                    for name in ("device", "subsystem_device"))] += 1
print(len(os.listdir("/sys/bus/pci/devices")), dict(found))
"""


def test_they_are_on_the_pci_bus_and_nothing_else_is(local, vm):
    assert local.python(vm, SCAN) == "4 {('0x0027', '0x004e'): 4}"


def test_they_have_files_below_dev(local, vm):
    assert local.says(vm, "ls -m /dev/vfio; ls -m /dev/accel*") == \
        "0, 1, 2, 3, vfio\n/dev/accel0, /dev/accel1, /dev/accel2, /dev/accel3"


@pytest.mark.parametrize("command", [
    "echo 0x8086 >/sys/bus/pci/devices/0000:00:04.0/vendor",
    "mkdir /sys/bus/pci/devices/0000:00:1f.0",
    "umount /sys/bus/pci/devices",
])
def test_they_are_not_the_vms_to_change(local, vm, command):
    assert local.root(vm, command, check=False).returncode != 0


def test_no_file_below_dev_is_a_device_of_the_hosts(local, vm):
    assert local.says(vm, "stat -c %F /dev/accel0 /dev/vfio/0 /dev/vfio/vfio").splitlines() == \
        ["regular empty file"] * 3
