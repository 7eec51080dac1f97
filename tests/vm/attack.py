"""What an attacker tries with the kernel as root of a VM: each attempt is a named call.

Run in a VM (or, as the control, on the host in namespaces of its own) it makes every attempt in a
process of its own and prints {name: outcome} as JSON. The outcome is "OK" or an errno's name: what
a permission check lets through ends as OK or in an error about the (deliberately wrong) arguments.
The standard library alone; x86-64.
"""
import ctypes
import errno
import json
import os
import signal
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (
    0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
AT_FDCWD = -100
ATTEMPTS = {}


def attempt(function):
    ATTEMPTS[function.__name__] = function
    return function


def syscall(number, *arguments):
    """A system call by its number on x86-64; raises OSError."""
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def text(string):
    return ctypes.c_char_p(string.encode())


def zeros(size):
    return ctypes.create_string_buffer(size)


def open_to_write(path):
    ATTEMPTS[f"write {path}"] = lambda: os.open(path, os.O_WRONLY)


def read_some(path):
    def read():
        if not os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 16):
            raise OSError(errno.ENODATA, "")
    ATTEMPTS[f"read {path}"] = read


# --- doors into the kernel --------------------------------------------------------------------------
@attempt
def bpf_map_create():
    attributes = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1), 128)
    syscall(321, 0, attributes, 128)


@attempt
def perf_event_open():
    attributes = ctypes.create_string_buffer(struct.pack("IIQ", 1, 128, 0), 128)
    syscall(298, attributes, 0, -1, -1, 0)


@attempt
def kexec_load():
    syscall(246, 0, 1000, None, 0)  # too many segments


@attempt
def kexec_file_load():
    syscall(320, -1, -1, 0, None, 0xffff)


@attempt
def init_module():
    syscall(175, zeros(8), 8, text(""))


@attempt
def finit_module():
    syscall(313, os.open("/etc/passwd", os.O_RDONLY), text(""), 0)


@attempt
def delete_module():
    syscall(176, text("no_such_module"), 0)


@attempt
def userfaultfd():
    syscall(323, 0o2000000)


@attempt
def io_uring_setup():
    syscall(425, 1, zeros(120))


@attempt
def add_key():
    syscall(248, text("user"), text("torus"), text("x"), 1, -2)


@attempt
def request_key():
    syscall(249, text("user"), text("no such key"), None, 0)


@attempt
def keyctl():
    syscall(250, 0, -3, 1)


@attempt
def open_by_handle_at():
    """The top of the host's file system, by its number, through a folder of it that the VM sees."""
    handle = ctypes.create_string_buffer(struct.pack("IiII", 8, 1, 2, 0), 16)
    folder = os.open("/opt/torus" if os.path.isdir("/opt/torus") else "/etc", os.O_RDONLY)
    syscall(304, folder, handle, os.O_RDONLY)


@attempt
def iopl():
    syscall(172, 3)


@attempt
def ioperm():
    syscall(173, 0x80, 1, 1)


@attempt
def syslog():
    syscall(103, 10, None, 0)


@attempt
def reboot():
    syscall(169, 0, 0, 0, None)  # with the wrong magic


@attempt
def swapon():
    syscall(167, text("/no/such"), 0)


@attempt
def acct():
    syscall(163, text("/no/such"))


@attempt
def quotactl():
    syscall(179, 0x800001 << 8, text("/no/such"), 0, None)


@attempt
def clock_settime():
    syscall(227, 0, ctypes.create_string_buffer(struct.pack("qq", 0, 2 * 10**9), 16))


@attempt
def clock_adjtime():
    tick = ctypes.create_string_buffer(208)
    struct.pack_into("I", tick, 0, 0x4000)  # ADJ_TICK, to nothing
    syscall(305, 0, tick)


# --- namespaces and mounts --------------------------------------------------------------------------
for name, flag in {"mount": NEWNS, "user": NEWUSER, "network": NEWNET, "pid": NEWPID, "uts": NEWUTS,
                   "ipc": NEWIPC, "cgroup": NEWCGROUP}.items():
    ATTEMPTS[f"unshare {name}"] = lambda flag=flag: syscall(272, flag)
    ATTEMPTS[f"clone {name}"] = lambda flag=flag: syscall(56, flag | signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0)


@attempt
def clone3_user():
    arguments = struct.pack("QQQQQQQQ", NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    syscall(435, ctypes.create_string_buffer(arguments, 64), 64) or os._exit(0)


@attempt
def setns():
    syscall(308, os.open("/proc/1/ns/net", os.O_RDONLY), NEWNET)


@attempt
def mount_tmpfs():
    syscall(165, text("none"), text("/mnt"), text("tmpfs"), 0, None)


@attempt
def mount_proc():
    syscall(165, text("none"), text("/mnt"), text("proc"), 0, None)


@attempt
def remount_sys_writable():
    syscall(165, text("none"), text("/sys"), None, 32, None)


@attempt
def bind_mount():
    syscall(165, text("/etc"), text("/mnt"), None, 4096, None)


@attempt
def umount():
    syscall(166, text("/mnt"), 2)


@attempt
def pivot_root():
    syscall(155, text("/no/such"), text("/no/such"))


@attempt
def fsopen():
    syscall(430, text("tmpfs"), 0)


@attempt
def fspick():
    syscall(433, AT_FDCWD, text("/"), 0)


@attempt
def open_tree():
    syscall(428, AT_FDCWD, text("/"), 1)


@attempt
def move_mount():
    syscall(429, -1, text(""), AT_FDCWD, text("/mnt"), 4)


@attempt
def mount_setattr():
    syscall(442, -1, text(""), 0x1000, zeros(32), 32)


@attempt
def sethostname():
    syscall(170, text("host"), 4)


# --- devices, priorities, sockets -------------------------------------------------------------------
@attempt
def mknod_block_device():
    os.mknod("/tmp/attack-disk", 0o60600, os.makedev(7, 0))


@attempt
def mknod_memory():
    os.mknod("/tmp/attack-mem", 0o20600, os.makedev(1, 1))


@attempt
def realtime_priority():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


@attempt
def nice_below_zero():
    os.setpriority(os.PRIO_PROCESS, 0, -20)


@attempt
def oom_score_below_its_own():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-900")


@attempt
def raw_packets():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)


@attempt
def raw_ip():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)


@attempt
def kernel_cryptography():
    socket.socket(38, socket.SOCK_SEQPACKET)


@attempt
def hypervisor_socket():
    socket.socket(40, socket.SOCK_STREAM)


@attempt
def express_data_path():
    socket.socket(44, socket.SOCK_RAW)


@attempt
def transparent_source():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_IP, 19, 1)


@attempt
def packet_mark():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.setsockopt(socket.SOL_SOCKET, 36, 1)


@attempt
def change_rules():
    """A batch for nf_tables that begins and ends and changes nothing."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as netlink:
        netlink.bind((0, 0))
        head = struct.pack("IHHII", 20, 16, 5, 1, 0) + struct.pack(">BBH", 2, 0, 10)
        netlink.send(head)  # NFNL_MSG_BATCH_BEGIN alone: an error only for those who may not
        netlink.settimeout(0.3)
        try:
            answer = netlink.recv(4096)
        except TimeoutError:
            return
        code = struct.unpack_from("i", answer, 16)[0]
        if code:
            raise OSError(-code, "")


# --- files of the kernel ----------------------------------------------------------------------------
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/sysrq",
             "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory",
             "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/disable_ipv6",
             "/proc/sys/net/ipv4/ping_group_range", "/proc/sys/fs/file-max",
             "/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled",
             "/sys/class/net/lo/mtu", "/dev/kmsg", "/dev/mem", "/dev/loop-control", "/dev/fuse",
             "/dev/net/tun", "/dev/kvm"):
    open_to_write(path)
for path in ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list", "/proc/config.gz",
             "/proc/kallsyms", "/dev/mem", "/dev/vda", "/sys/kernel/debug/sched",
             "/sys/devices/virtual/block/loop0/size", "/sys/firmware/dmi/tables/DMI"):
    read_some(path)


def outcome(function):
    """What the call ends in, in a child, so that whatever it does ends with it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        result = "OK"
        try:
            function()
        except OSError as error:
            result = errno.errorcode.get(error.errno, str(error.errno))
        os.write(writer, result.encode())
        os._exit(0)
    os.close(writer)
    result = os.read(reader, 100).decode()
    os.close(reader)
    os.waitpid(child, 0)
    return result or "died"


if __name__ == "__main__":
    json.dump({name: outcome(function) for name, function in ATTEMPTS.items()}, sys.stdout)
