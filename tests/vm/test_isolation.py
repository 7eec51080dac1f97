"""A VM's root is nobody: it reaches neither the host nor another VM. (More: the hardening issue.)"""
import pytest

from tpu_vm import CREATE, DATA


@pytest.fixture(scope="module")
def neighbour(local):
    local.vm("create", "neighbour", *CREATE)
    yield local.node("neighbour")["networkEndpoints"][0]["ipAddress"]
    local.vm("delete", "neighbour", "--quiet")


def reaches(local, vm, address, port):
    done = local.ssh(vm, f"timeout 3 bash -c 'echo > /dev/tcp/{address}/{port}'", check=False)
    return done.returncode == 0


def test_another_vm_is_out_of_reach(local, vm, neighbour):
    assert reaches(local, vm, local.node(vm)["networkEndpoints"][0]["ipAddress"], 22)
    assert not reaches(local, vm, neighbour, 22)


def test_the_hosts_addresses_are_out_of_reach(local, vm):
    gateway = local.says(vm, "ip -4 route show default | grep -oE 'via [0-9.]+' | cut -d' ' -f2")
    for address in {gateway, "10.128.0.1"} - {""}:
        assert not reaches(local, vm, address, local.port)


def test_the_hosts_files_and_processes_are_not_there(local, vm):
    assert local.ssh(vm, f"ls {DATA}", check=False).returncode != 0
    assert "torus serve" not in local.says(vm, "ps -ef")
    outside = local.says(vm, "cat /proc/self/uid_map").split()
    assert outside[0] == "0" and int(outside[1]) >= 1_000_000


def test_root_in_a_vm_has_no_power_over_the_kernel(local, vm):
    for command in ("sudo mount -t proc proc /mnt", "sudo dmesg", "sudo sh -c 'echo 1 > /proc/sys/kernel/sysrq'",
                    "sudo mknod /tmp/sda b 8 0 && sudo head -c1 /tmp/sda", "sudo unshare --mount true"):
        assert local.ssh(vm, command, check=False).returncode != 0, command
