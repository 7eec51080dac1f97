"""What a VM uses up is its own share: processes, memory, disk, descriptors, log. The host goes on, and so do others.

The limits that an attack runs into are read first, and lowered from the host where the default is
most of the machine, which others use too.
"""
import os
import pathlib
import shutil
import subprocess
import threading

import pytest

import torus
from tpu_vm import CREATE, DATA, LocalService, Witness, tag

MiB, GiB = 2**20, 2**30


def cgroup_file(local, vm, *names):
    """The VM's file of that name (cgroup v1 or v2) in whichever hierarchy has it."""
    for folder in pathlib.Path("/sys/fs/cgroup").glob(f"**/torus-{tag(local.uid(vm))}"):
        for name in names:
            if (folder / name).exists():
                return folder / name
    raise AssertionError(f"no {names} of {vm}")


class lowered:
    """A limit of a cgroup, while a `with` block lasts, at a value that is below its own."""

    def __init__(self, path, value):
        self.path, self.value = path, value

    def __enter__(self):
        self.before = self.path.read_text().strip()
        assert self.before != "max" and int(self.before) > self.value
        self.path.write_text(str(self.value))

    def __exit__(self, *_):
        if self.path.exists():
            self.path.write_text(self.before)


def test_a_fork_bomb(local, vm, witness):
    limit = cgroup_file(local, vm, "pids.max")
    assert int(limit.read_text()) <= 16384
    bomb = ("import errno, os, time\n"
            "children = []\n"
            "try:\n"
            "    while True:\n"
            "        child = os.fork()\n"
            "        if child == 0: time.sleep(60); os._exit(0)\n"
            "        children.append(child)\n"
            "except OSError as error: print(len(children), errno.errorcode[error.errno])\n"
            "time.sleep(2)\n"
            "for child in children: os.kill(child, 9)\n")
    with lowered(limit, 600), witness:
        made, reason = local.python(vm, bomb).split()
    assert 400 < int(made) < 600 and reason == "EAGAIN"
    assert local.says(vm, "whoami") == "dev"


def test_memory_without_end(local, vm, witness):
    """A process that takes all of its VM's memory is ended, and the VM lives."""
    limit = cgroup_file(local, vm, "memory.limit_in_bytes", "memory.max")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert int(limit.read_text()) <= 0.81 * total
    with lowered(limit, GiB), witness:
        control = local.root(vm, "python3 -c 'len(bytearray(300 << 20))'")
        assert control.returncode == 0
        ended = local.root(vm, "python3 -c 'len(bytearray(3 << 30))'; echo ended with $?")
        assert "ended with 137" in ended.stdout
    assert local.says(vm, "whoami") == "dev"


def test_memory_that_no_process_has(local, vm, witness):
    """Files in memory outlive every process that is ended for them: its own harm, until it is stopped."""
    sizes = local.says(vm, "stat -f -c '%b * %S' /dev/shm /run /dev | xargs -L1 expr").split()
    limit = cgroup_file(local, vm, "memory.limit_in_bytes", "memory.max")
    assert sum(map(int, sizes)) < 0.65 * int(limit.read_text()), "all that it has leaves room"
    with lowered(limit, GiB), witness:
        local.root(vm, "head -c 3G /dev/zero >/dev/shm/fill", check=False)
        local.vm("stop", vm)
    local.vm("start", vm)
    assert local.says(vm, "ls /dev/shm | wc -l") == "0"


def test_when_the_whole_host_lacks_memory_the_vms_processes_end_first(local, vm):
    lower = ("import errno, os\n"
             "try: os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-900'); print('OK')\n"
             "except OSError as error: print(errno.errorcode[error.errno])")
    assert local.says(vm, "cat /proc/self/oom_score_adj /proc/1/oom_score_adj").split() == ["500", "500"]
    assert local.python(vm, lower) == "EACCES"
    assert local.python(vm, lower.replace("-900", "900")) == "OK", "the control"


SOCKETS = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (10000, 10000))
server = socket.create_server(("127.0.0.1", 0), backlog=4096)
held, sent = [server], 0
try:
    for _ in range(1500):
        a = socket.create_connection(server.getsockname()); b, _ = server.accept()
        b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        a.setblocking(False); held += [a, b]
        try:
            while True: sent += a.send(b"x" * 65536)
        except BlockingIOError: pass
except OSError as error: pass
pages = [l for l in open("/proc/net/sockstat") if l.startswith("TCP:")][0].split()[-1]
print(sent, int(pages) * 4096)
"""


def test_what_fills_sockets_counts(local, vm, witness):
    """Of a cgroup v1's memory sockets are no part: they have a limit of their own."""
    try:
        limit = cgroup_file(local, vm, "memory.kmem.tcp.limit_in_bytes")
    except AssertionError:
        limit = cgroup_file(local, vm, "memory.max")  # v2: part of it
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert int(limit.read_text()) <= 0.81 * total
    before = tcp_pages()
    with lowered(limit, 64 * MiB), witness:
        seen = []
        watch, over = None, threading.Event()

        def look():
            while not over.wait(0.05):
                seen.append(tcp_pages() - before)
        watch = threading.Thread(target=look)
        watch.start()
        try:
            local.python(vm, SOCKETS)
        finally:
            over.set()
            watch.join()
    assert max(seen) * 4096 < 160 * MiB, "of the whole host"
    assert max(seen) * 4096 > 16 * MiB, "the control: it was tried"


def tcp_pages():
    """What all TCP sockets of the host and its VMs hold."""
    line = next(l for l in pathlib.Path("/proc/net/sockstat").read_text().splitlines() if l.startswith("TCP:"))
    return int(line.split()[-1])


INOTIFY = """
import ctypes, errno, sys
c = ctypes.CDLL(None, use_errno=True); made = 0
while c.inotify_init1(0) >= 0: made += 1
print(made, errno.errorcode[ctypes.get_errno()], flush=True)
sys.stdin.read()
"""


def test_what_the_kernel_counts_by_user_is_the_vms_own(local, vm, neighbour, witness):
    """Its root made by the host's root would use up the host's inotify, and every other VM's."""
    most = int(pathlib.Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    until = ("import os, time\nopen('/tmp/held', 'w').close()\n"
             "while not os.path.exists('/tmp/let-go'): time.sleep(0.1)")
    hold = INOTIFY.replace("sys.stdin.read()", until)
    holding = threading.Thread(target=local.python, args=(vm, hold))
    local.ssh(vm, "sudo rm -f /tmp/let-go /tmp/held")
    with witness:
        holding.start()
        # Not by trying: what a try takes meanwhile, the other cannot have.
        torus.eventually(lambda: local.ssh(vm, "test -e /tmp/held", check=False).returncode == 0,
                         what="the VM using up its own")
        assert local.python(vm, INOTIFY).split()[0] == "0"
        for command in (subprocess.run(["python3", "-c", INOTIFY], capture_output=True, text=True).stdout,
                        local.python(neighbour, INOTIFY)):
            assert int(command.split()[0]) > most / 2
        local.ssh(vm, "touch /tmp/let-go")
        holding.join()


def test_no_number_of_open_files_leaves_the_host_without(local, vm):
    assert int(pathlib.Path("/proc/sys/fs/file-max").read_text()) > 16384 * 2**20


def test_descriptors_without_end(local, vm, witness):
    """As many as a process may have, and the host has more to give."""
    program = ("import errno, os, resource\n"
               "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
               "try: resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1)); print('raised')\n"
               "except (OSError, ValueError): pass\n"
               "fd, made = os.open('/dev/null', 0), 1\n"
               "try:\n"
               "    while True: os.dup(fd); made += 1\n"
               "except OSError as error: print(made < hard + 1, errno.errorcode[error.errno])\n")
    with witness:
        assert local.python(vm, program) == "True EMFILE"


def test_files_without_end_use_no_inode_of_the_hosts(local, vm, witness):
    host = os.statvfs(DATA)
    make = ("import os\n"
            "os.makedirs('/many')\n"
            "for i in range(20000): open(f'/many/{i}', 'w').close()\n"
            "os.sync(); v = os.statvfs('/'); print(v.f_files, v.f_favail)")
    with witness:
        inside = list(map(int, local.python(vm, make).split()))
    assert inside[0] < 4_000_000
    assert host.f_favail - os.statvfs(DATA).f_favail < 2000
    local.root(vm, "rm -rf /many")


def test_what_it_says_to_its_worker_is_not_kept_without_end(local, vm, neighbour, witness):
    """A VM whose commands talk without end, and whose sshd is gone over and over."""
    folder = DATA / "data/vms" / local.uid(vm) / "0/log"
    local.root(vm, "printf '#!/bin/sh\\nyes $(head -c 300 /dev/zero | tr \"\\\\0\" x) | head -c 50000000\\nexit 1\\n' "
                   ">/usr/local/sbin/useradd; chmod 755 /usr/local/sbin/useradd")
    serve = local.log.stat().st_size
    with witness:
        metadata = local.node(vm)["metadata"]
        keys = metadata["ssh-keys"] + "\nloud:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"
        local.wait(local.ok("PATCH", f"/v2/{torus.PARENT}/nodes/{vm}?updateMask=metadata",
                            {"metadata": metadata | {"ssh-keys": keys}}), 120)
    local.root(vm, "rm /usr/local/sbin/useradd")
    assert sum(f.stat().st_size for f in folder.iterdir()) < 64 * 1024
    assert local.log.stat().st_size - serve < 64 * 1024


# --- the disk ---------------------------------------------------------------------------------------
def disk_free(folder):
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize


def test_it_has_a_disk_of_its_own_of_upstreams_size(local, vm):
    size = int(local.says(vm, "stat -f -c '%b * %S' / | xargs expr"))
    assert 0.95 * 100 * GiB < size <= 100 * GiB
    disk = DATA / "data/vms" / local.uid(vm) / "0/disk/image"
    assert disk.stat().st_size == 100 * GiB
    assert disk.stat().st_blocks * 512 < 1.5 * GiB, "the host's space is taken as it fills"


def test_space_cannot_be_promised_that_is_not_written(local, vm, tmp_path):
    promise = ("import errno, os, sys\n"
               "fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)\n"
               "try: print('promised', os.posix_fallocate(fd, 0, 1 << 20), os.fstat(fd).st_blocks)\n"
               "except OSError as error: print(errno.errorcode[error.errno])\n"
               "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
               "c.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]\n"
               "for mode in (0, 1, 16, 3):\n"
               "    print(mode, errno.errorcode.get(c.fallocate(fd, mode, 0, 1 << 30) and ctypes.get_errno(), 'OK'))")
    inside = local.python(vm, promise, "/promise").splitlines()
    assert inside == ["promised None 2048", "0 ENOTSUP", "1 ENOTSUP", "16 ENOTSUP", "3 OK"]
    outside = subprocess.run(["python3", "-c", promise, tmp_path / "promise"], capture_output=True, text=True).stdout
    assert "0 OK" in outside.splitlines(), "the control"


@pytest.fixture
def small(local, tmp_path_factory):
    """A service with two VMs on a disk of 4 GiB."""
    folder = DATA.parent / f"{DATA.name}-small"
    image = DATA.parent / f"{DATA.name}-small.img"
    folder.mkdir(exist_ok=True)
    with open(image, "wb") as file:
        file.truncate(4 * GiB)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "nodiscard", image], check=True)
    subprocess.run(["mount", "-o", "loop,discard", image, folder], check=True)
    service = LocalService(tmp_path_factory.mktemp("home"), folder)
    try:
        service.start()
        for node in ("filler", "bystander"):
            service.vm("create", node, *CREATE)
            service.ssh(node, "true")
        yield service
        service.delete_all()
    finally:
        service.stop()
        subprocess.run(["umount", folder], check=True)
        image.unlink()
        shutil.rmtree(folder)


def test_a_vm_that_fills_its_disk_leaves_the_host_room(small):
    """The disks of two VMs promise 200 GiB of the 4 GiB that there are."""
    lowest, over = [disk_free(small.folder)], threading.Event()

    def look():
        while not over.wait(0.02):
            lowest[0] = min(lowest[0], disk_free(small.folder))
    watch = threading.Thread(target=look)
    watch.start()
    try:
        with Witness(small, "bystander"):
            filled = small.root("filler", "dd if=/dev/zero of=/fill bs=1M; sync; stat -c %s /fill", check=False)
            assert "No space left on device" in filled.stderr
            assert int(filled.stdout) > GiB, "the control: it was tried"
            # The bystander goes on writing, and the service stores.
            small.root("bystander", "head -c 50M /dev/zero >/more && sync")
            small.wait(small.ok("PATCH", f"/v2/{torus.PARENT}/nodes/bystander?updateMask=description",
                                {"description": "still here"}))
            # The filler itself may still be entered, and mended.
            small.root("filler", "rm /fill && sync")
            torus.eventually(lambda: disk_free(small.folder) > 2.5 * GiB)
            small.root("filler", "head -c 200M /dev/zero >/again && sync && rm /again")
    finally:
        over.set()
        watch.join()
    assert lowest[0] > GiB


def test_two_that_fill_at_once_leave_the_host_room(small):
    fill = "dd if=/dev/zero of=/fill bs=1M conv=fsync; rm /fill"
    both = [threading.Thread(target=small.root, args=(node, fill), kwargs={"check": False})
            for node in ("filler", "bystander")]
    lowest = disk_free(small.folder)
    for thread in both:
        thread.start()
    while any(thread.is_alive() for thread in both):
        lowest = min(lowest, disk_free(small.folder))
        assert small.call("GET", f"/v2/{torus.PARENT}/nodes")[0] == 200
        both[0].join(0.05)
    assert lowest > GiB / 2
    assert small.says("bystander", "whoami") == "dev"


def test_without_loop_devices_the_log_says_that_nothing_bounds_the_disk(local, tmp_path_factory):
    folder = DATA.parent / f"{DATA.name}-bare"
    shutil.rmtree(folder, ignore_errors=True)
    service = LocalService(tmp_path_factory.mktemp("home"), folder)
    service.prefix = ["unshare", "--mount", "sh", "-c",
                      'mount --bind /dev/null /dev/loop-control && exec "$@"', "sh"]
    try:
        service.start()
        service.vm("create", "bare", *CREATE)
        service.ssh("bare", "echo kept >kept")
        log = next((folder / "data/vms").glob("*/0/log/worker.log")).read_text()
        assert "the VM can fill the host's disk" in log and "loop" in log
        service.vm("stop", "bare")
        service.vm("start", "bare")
        assert service.says("bare", "cat kept") == "kept"
        service.delete_all()
    finally:
        service.stop()
        shutil.rmtree(folder, ignore_errors=True)
