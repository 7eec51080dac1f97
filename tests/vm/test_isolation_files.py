"""The host's files, processes and memory are not in a VM, and nothing that is in a VM leads to them."""
import hashlib
import os
import pathlib
import shutil
import stat
import subprocess
import uuid

import pytest

import torus
from tpu_vm import DATA

# Prints, for every process in the VM, where its descriptors and folders lead, and its environment.
LOOK_AROUND = r"""
import glob, os
for link in glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/proc/[0-9]*/cwd") + glob.glob("/proc/[0-9]*/root"):
    try: print(link.split("/", 3)[3].split("/")[0], os.readlink(link))
    except OSError: pass
for path in glob.glob("/proc/[0-9]*/environ"):
    try: print("environment", open(path).read().replace("\0", " "))
    except OSError: pass
"""


@pytest.fixture(scope="module")
def around(local, vm):
    return local.python(vm, LOOK_AROUND).splitlines()


def test_the_hosts_folders_are_not_there(local, vm):
    marker = f"/var/tmp/torus-marker-{uuid.uuid4()}"
    pathlib.Path(marker).touch()
    try:
        for path in (marker, DATA, DATA / "data/worker.sock", torus.BINARY, torus.ROOT, f"/proc/1/root{marker}",
                     f"/proc/1/cwd{marker}", f"/proc/self/root/../../..{marker}"):
            assert local.root(vm, f"ls -d {path}", check=False).returncode != 0, path
            assert local.root(vm, f"ls -d {path} 2>&1", check=False).stdout.endswith("No such file or directory\n")
    finally:
        os.unlink(marker)


def test_its_mounts_tell_no_path_of_the_host_but_of_its_own_folder(local, vm):
    """The kernel says where a folder that is bound in comes from: each of them is its own."""
    mounts = local.says(vm, "cat /proc/self/mountinfo /proc/1/mountinfo")
    own = str(DATA / "data/vms" / local.uid(vm) / "0")
    told = [line.split()[4] for line in mounts.splitlines() if str(DATA) in line.replace(own, "")]
    assert told == [] and own in mounts
    for text in ("/images/", "disk/image", "/worker.sock", "/upper", str(pathlib.Path.home()) + "/"):
        assert text not in mounts.replace("upperdir=/media/disk/upper", "").replace("upperdir=/srv/disk/upper", "")
    root = next(l for l in mounts.splitlines() if l.split()[4] == "/")
    assert "nodev" in root.split()[5], "a device's file on its disk would be no device"


def test_no_descriptor_leads_out(around):
    """CVE-2024-21626: a descriptor of a host's folder that a process in the VM was born with."""
    for line in around:
        kind, target = (line.split(" ", 1) + [""])[:2]
        if kind == "fd":
            assert target.startswith(("/dev/", "pipe:[", "socket:[", "anon_inode:", "/proc/", "/run/torus/",
                                      "/var/log/")), line


def test_no_environment_of_the_hosts(around):
    said = "\n".join(line for line in around if line.startswith("environment"))
    assert "PATH=" in said
    for name in ("TORUS_TEST_DATA", "PYTEST_CURRENT_TEST", "XDG_CONFIG_HOME"):
        assert name not in said


# In the place of useradd, which the worker has run in the VM when a user is new: notes all that it
# is given and all that it sees of whoever starts it.
SPY = r"""#!/usr/bin/python3
import glob, json, os, time
seen, end = {}, time.time() + 1.5
def look():
    for link in glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/proc/[0-9]*/exe"):
        try: seen[os.readlink(link)] = link
        except OSError: pass
while time.time() < end: look()
out = {"links": seen, "environment": dict(os.environ), "changed": []}
for fd in range(3):
    for change in ("os.fchmod(fd, 0o777)", "os.fchown(fd, 0, 0)"):
        try: eval(change); out["changed"].append((fd, change, os.readlink(f"/proc/self/fd/{fd}")))
        except OSError: pass
    # Out of a folder that a descriptor may be
    try: out["changed"].append((fd, os.listdir(f"/proc/self/fd/{fd}/..")))
    except OSError: pass
json.dump(out, open("/spied", "w"))
"""


def metadata_patch(local, vm, key, value):
    before = local.node(vm)["metadata"]
    return local.wait(local.ok("PATCH", f"/v2/{torus.PARENT}/nodes/{vm}?updateMask=metadata",
                               {"metadata": before | {key: value}}), 120)


def add_user(local, vm, name):
    """Has the worker run a command in the VM."""
    keys = local.node(vm)["metadata"]["ssh-keys"]
    return metadata_patch(local, vm, "ssh-keys", keys + f"\n{name}:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA")


def put(local, vm, path, text, mode=0o755):
    local.python(vm, "import os, sys; open(sys.argv[1], 'w').write(sys.argv[2]); os.chmod(sys.argv[1], int(sys.argv[3]))",
                 path, text, mode)


def test_what_the_worker_runs_in_the_vm_brings_nothing_along(local, vm):
    null = os.stat("/dev/null")
    put(local, vm, "/usr/local/sbin/useradd", SPY)
    add_user(local, vm, "spied")
    spied = __import__("json").loads(local.root(vm, "cat /spied; rm /usr/local/sbin/useradd").stdout)
    assert any(link.startswith("pipe:") for link in spied["links"]), "it saw its own descriptors"
    for link, where in spied["links"].items():
        assert str(DATA) not in link and "runc" not in link, (link, where)
    assert set(spied["environment"]) <= {"PATH", "LANG", "HOME", "PWD", "SHLVL", "_", "OLDPWD", "TERM", "LC_CTYPE"}
    for change in spied["changed"]:
        assert "pipe:" in change[-1], change
    after = os.stat("/dev/null")
    assert (null.st_mode, null.st_uid) == (after.st_mode, after.st_uid)


def test_the_host_runs_no_program_of_the_vms_and_runc_stays_whole(local, vm):
    """CVE-2019-5736: a shell in the VM that is the very program that enters it, opened to write."""
    runc = pathlib.Path(shutil.which("runc"))
    before = hashlib.sha256(runc.read_bytes()).hexdigest()
    overwrite = ("#!/proc/self/exe\n", r"""
import glob, os, time
end, wrote = time.time() + 4, []
while time.time() < end:
    for exe in glob.glob("/proc/[0-9]*/exe"):
        try:
            if "runc" in os.readlink(exe) or "memfd" in os.readlink(exe):
                os.close(os.open(exe, os.O_WRONLY)); wrote.append(exe)
        except OSError: pass
open("/wrote", "w").write(repr(wrote))
""")
    put(local, vm, "/overwrite.py", overwrite[1])
    local.root(vm, "setsid python3 /overwrite.py >/dev/null 2>&1 &")
    put(local, vm, "/tmp/sh", overwrite[0])
    # /bin/sh is what the worker runs; our own shell is bash.
    local.ssh(vm, "sudo bash -c 'cp /bin/sh /sh.kept && cp /tmp/sh /bin/sh.new && mv /bin/sh.new /bin/sh'")
    try:
        add_user(local, vm, "hidden")
    finally:
        local.ssh(vm, "sudo bash -c 'mv /sh.kept /bin/sh'")
    torus.eventually(lambda: local.root(vm, "cat /wrote", check=False).stdout == "[]")
    assert hashlib.sha256(runc.read_bytes()).hexdigest() == before
    assert local.says(vm, "whoami") == "dev"


def test_links_on_its_disk_lead_nobody_out_of_it(local, vm):
    """What stands in the way of the next start's mounts and files leads to the VM's own."""
    name = f"/var/tmp/torus-escape-{uuid.uuid4()}"
    local.root(vm, f"mv /opt /opt.away && ln -s ../../../../../..{name} /opt; "
                   f"for file in /etc/hosts /etc/hostname /etc/resolv.conf /var/log/auth.log; do "
                   f"rm -f $file; ln -s ../../../../../../../..{name} $file; done")
    local.vm("stop", vm)
    started = local.vm("start", vm, check=False)
    assert not os.path.lexists(name), "nothing was made on the host"
    if started.returncode != 0:
        assert "error" in (started.stdout + started.stderr).lower()
        local.vm("delete", vm, "--quiet")
        local.vm("create", vm, "--accelerator-type=v2-8", "--version=tpu-ubuntu2204-base")
    assert local.says(vm, "whoami") == "dev"


CGROUP = "top=/sys/fs/cgroup/memory; [ -d $top ] || top=/sys/fs/cgroup"


@pytest.mark.parametrize("command,reason", [
    ("echo x >/run/torus/users", "Read-only file system"),
    ("ln -sf /etc/passwd /run/torus/keys/dev", "Read-only file system"),
    ("chmod 777 /run/torus", "Read-only file system"),
    ("touch /opt/torus/libtpu.so", "Permission denied"),
    ("mount -o remount,rw /run/torus", "permission denied"),
    ("mv /run/torus /run/away", "Device or resource busy"),
    (f"{CGROUP}; mkdir $top/x", "Read-only file system"),
    (f"{CGROUP}; echo 1 >$top/cgroup.procs", "Read-only file system"),
    ("echo /x >/sys/fs/cgroup/memory/release_agent", ""),
])
def test_what_the_worker_made_is_not_its_to_change(local, vm, command, reason):
    refused = local.root(vm, command, check=False)
    assert refused.returncode != 0 and reason in refused.stderr, refused.stderr


def test_nobody_else_on_the_host_reads_its_disk_or_its_keys(local, vm):
    """A VM's programs are setuid to it, and its keys are its own: other users of the host get at neither."""
    local.root(vm, "cp /bin/bash /setuid-root && chmod 4755 /setuid-root && sync")
    folder = DATA / "data/vms" / local.uid(vm) / "0"
    for path in (folder, folder / "disk", folder / "disk/hostkeys/ssh_host_ed25519_key", folder / "log/worker.log"):
        assert path.exists()
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "ls", path],
                              capture_output=True, text=True)
        assert "Permission denied" in done.stderr
    disk = folder / "disk/image"
    if disk.exists():
        assert stat.S_IMODE(disk.stat().st_mode) == 0o600
        assert str(disk) not in pathlib.Path("/proc/mounts").read_text(), "the host has it not mounted"
    assert not list(folder.glob("disk/upper/setuid-root"))


def test_no_file_tells_of_the_host_or_of_other_vms(local, vm, neighbour):
    """A search of all that /proc and /sys say: no path of the data folder, no other VM's uid."""
    wanted = [str(DATA), local.uid(neighbour)]
    search = ("import os, sys\n"
              "for top in ('/proc', '/sys'):\n"
              "  for folder, folders, files in os.walk(top):\n"
              "    folders[:] = [f for f in folders if not f.isdigit() and f not in ('self', 'thread-self')]\n"
              "    for name in files:\n"
              "      try:\n"
              "        fd = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)\n"
              "        text = os.read(fd, 65536); os.close(fd)\n"
              "      except OSError: continue\n"
              "      for word in sys.argv[1:]:\n"
              "        if word.encode() in text: print(folder, name)\n"
              "print('done')\n")
    assert local.python(vm, search, *wanted) == "done"


def test_kernel_memory_and_other_users_of_the_host_are_nobody_inside(local, vm):
    assert local.says(vm, "cat /proc/self/uid_map /proc/self/gid_map").split()[2::3] == ["65536", "65536"]
    bases = [int(local.says(vm, "cat /proc/self/uid_map").split()[1])]
    assert bases[0] >= 1_000_000
    assert local.says(vm, "stat -c %U /sys /proc/sys") == "nobody\nnobody"
