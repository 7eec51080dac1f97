"""Root of a VM has no power over the kernel: every attempt of attack.py is refused.

Each has a control: the same call, made on the host in namespaces of its own, is not refused (or the
kernel does not have it at all). So none of them passes here for being wrong.
"""
import json
import pathlib
import subprocess
import sys

import pytest

import attack

ATTACK = pathlib.Path(attack.__file__)
REFUSED = {"EPERM", "EACCES", "EROFS"}
MISSING = {"ENOSYS", "ENOENT", "EAFNOSUPPORT", "ENODEV", "ENXIO"}
# What a VM says instead of "not permitted": that there is no such thing.
NOT_THERE = {
    "clone3_user": "ENOSYS",  # the libraries then use clone, whose flags the filter sees
    "raw_packets": "EAFNOSUPPORT", "kernel_cryptography": "EAFNOSUPPORT",
    "hypervisor_socket": "EAFNOSUPPORT", "express_data_path": "EAFNOSUPPORT",
    "read /proc/kcore": "ENODATA", "read /proc/kmsg": "ENODATA", "read /proc/keys": "ENODATA",
    "read /proc/timer_list": "ENODATA", "read /proc/config.gz": "ENODATA",
    "read /proc/kallsyms": "ENODATA",
}


@pytest.fixture(scope="module")
def inside(local, vm):
    local.torus("tpu-vm", "scp", str(ATTACK), f"dev@{vm}:attack.py", "--quiet")
    return json.loads(local.says(vm, "sudo python3 attack.py"))


@pytest.fixture(scope="module")
def outside():
    done = subprocess.run(["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--mount-proc",
                           sys.executable, ATTACK], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", attack.ATTEMPTS)
def test_is_refused(inside, outside, name):
    expected = {NOT_THERE[name]} if name in NOT_THERE else REFUSED
    absent = name.startswith(("write /dev", "read /dev", "read /sys", "write /sys", "write /proc"))
    assert inside[name] in expected | (MISSING if absent or outside[name] in MISSING else set())
    # A host that is a container itself refuses some to its own root, too: those have no control.
    assert outside[name] not in REFUSED or name in ("read /dev/vda", "oom_score_below_its_own")


def test_chroot_leads_to_the_vms_own_root(local, vm):
    """The classic way out of a chroot ends at the top of the VM."""
    escape = ("import os; os.makedirs('/tmp/jail', exist_ok=True); top = os.open('/', os.O_RDONLY); "
              "os.chroot('/tmp/jail'); os.fchdir(top); [os.chdir('..') for _ in range(50)]; "
              "os.chroot('.'); print(os.path.exists('/run/torus/slice'), os.listdir('/root'))")
    assert local.says(vm, f'sudo python3 -c "{escape}"') == "True ['.bashrc', '.profile']"


def test_ptrace_sees_only_the_vms_processes(local, vm):
    """The host's processes have no number in the VM; its own may be traced."""
    count = int(local.says(vm, "sudo sh -c 'ls -d /proc/[0-9]* | wc -l'"))
    host = len([p for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()])
    assert count < 40 and count < host
    assert local.says(vm, "sudo readlink /proc/1/exe") == "/usr/bin/tini"


def test_the_filter_holds_for_32_bit_calls(local, vm):
    """int 0x80 has a table of its own: under the filter it ends the process, or is refused."""
    code = ("import ctypes, mmap; page = mmap.mmap(-1, 4096, prot=7); "
            # mov eax, 20 (getpid in that table); int 0x80; ret
            "page.write(bytes.fromhex('b814000000cd80c3')); "
            "call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page))); "
            "print('answer', call() > 0)")
    assert "answer True" not in local.ssh(vm, f'sudo python3 -c "{code}"', check=False).stdout


def test_no_capability_that_reaches_the_host(local, vm):
    bounding = int(local.says(vm, "sudo grep CapBnd /proc/self/status").split()[1], 16)
    # admin, raw and boot; modules, raw i/o, tracing, time, resources, devices, syslog, perf and bpf
    for bit in (12, 13, 16, 17, 19, 21, 22, 24, 25, 27, 34, 38, 39):
        assert not bounding >> bit & 1, f"capability {bit}"
