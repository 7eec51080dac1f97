"""VMs come and go and leave nothing on the whole host; and what one costs while it idles.

TORUS_SOAK makes 100 VMs in a row and 12 at once (scripts/soak.sh); otherwise a sample.
"""
import os
import pathlib
import re
import subprocess

import pytest

import torus
from tpu_vm import DATA, note_uids, seen_uids, ssh_greets, tag

IN_A_ROW, AT_ONCE = (100, 12) if "TORUS_SOAK" in os.environ else (5, 4)
IDLE_BAR = 30 << 20
FIRST_UID = 1_000_000


def lines(*command):
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


def is_ours(text):
    """Whether a line is of no other service's VM: those come and go as they like."""
    note_uids()
    tags = re.findall(r"(?:tv|torus[_-])([0-9a-f]{12})\b", text)
    return not tags or any(t in {tag(uid) for uid in seen_uids} for t in tags)


def processes():
    """{pid: (parent, start, command)} of all that live."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        state, parent, *fields = stat[stat.rindex(")") + 2:].split()
        if state != "Z":
            found[int(folder.name)] = int(parent), fields[17], command
    return found


def of_vms():
    """Processes that are a VM's (by their uid) or do something for one (by what they were told)."""
    found = set()
    for pid, (_, start, command) in processes().items():
        try:
            inside = os.stat(f"/proc/{pid}").st_uid >= FIRST_UID
        except OSError:
            continue
        if str(DATA) in command and " serve " not in command or inside and of_our_uids(pid):
            found.add((pid, start, command))
    return found


def of_our_uids(pid):
    """Another service's VMs have their data elsewhere."""
    try:
        return any(tag(uid) in pathlib.Path(f"/proc/{pid}/cgroup").read_text() for uid in seen_uids)
    except OSError:
        return False


def namespaces_of(pids):
    found = set()
    for pid in pids:
        for link in pathlib.Path(f"/proc/{pid}/ns").glob("*"):
            try:
                found.add(os.readlink(link))
            except OSError:
                pass
    return found


def host():
    """All that a VM might leave on a host, by kind."""
    ours = of_vms()
    named = {
        "processes": {f"{pid} {command}" for pid, _, command in ours},
        "namespaces": namespaces_of(pid for pid, _, _ in ours),
        "mounts": set(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()),
        "links": {line.split(":")[1] for line in lines("ip", "-o", "link")},
        "addresses": lines("ip", "-br", "addr"),
        "routes": {line.replace("linkdown", "") for line in lines("ip", "route", "show", "table", "all")},
        "rules": lines("ip", "rule"),
        "tables": lines("nft", "list", "tables"),
        "cgroups": {folder for folder, _, _ in os.walk("/sys/fs/cgroup")},
        "disks": lines("sh", "-c", "cat /sys/block/loop*/loop/backing_file; true"),
        "files": {os.path.join(folder, name) for top in (DATA / "data/vms", "/run/runc", "/run/netns")
                  for folder, folders, files in os.walk(top) for name in folders + files},
    }
    return {kind: {text for text in found if is_ours(text)} for kind, found in named.items()}


def service_size(service):
    """Open descriptors and threads of the service."""
    folder = pathlib.Path(f"/proc/{service.process.pid}")
    return len(list((folder / "fd").iterdir())), len(list((folder / "task").iterdir()))


def memory(pid, field="Pss"):
    """Bytes; Pss shares out what several processes have together."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(rf"^{field}:\s+(\d+)", text, re.M).group(1)) * 1024


def come_and_go(service, names, while_they_run=lambda: None):
    made = [service.create(name) for name in names]
    for operation in made:
        assert "response" in service.wait(operation, 120)
    assert all(ssh_greets(service.address(name)) for name in names)
    while_they_run()
    gone = [service.ok("DELETE", f"/v2/{torus.PARENT}/nodes/{name}") for name in names]
    for operation in gone:
        assert "response" in service.wait(operation, 120)


@pytest.fixture(scope="module")
def warm(local):
    """What the first VMs make once: threads, the allocator's arenas, the host's forwarding."""
    for _ in range(2):
        come_and_go(local, [f"warm-{i}" for i in range(AT_ONCE)])
    return local


def test_what_would_be_left_is_seen(warm):
    """The control: while a VM runs, the comparison finds all kinds of things of it."""
    before, kinds = host(), set()

    def look():
        kinds.update(kind for kind, found in host().items() if found - before[kind])
    come_and_go(warm, ["seen"], look)
    assert kinds >= {"processes", "namespaces", "links", "addresses", "routes", "tables", "cgroups", "files"}


def assert_nothing_is_left(service, before, size_before):
    def left():
        now = host()
        return {kind: sorted(now[kind] - before[kind])[:10] for kind in now if now[kind] - before[kind]}
    try:
        torus.eventually(lambda: not left(), 30)
    except AssertionError:
        raise AssertionError(f"left on the host: {left()}") from None
    descriptors, threads = size_before
    torus.eventually(lambda: service_size(service)[0] <= descriptors + 2, 30, "as few descriptors as before")
    assert service_size(service)[1] <= threads + 4


@pytest.mark.parametrize("rounds,at_once", [(IN_A_ROW, 1), (2, AT_ONCE)], ids=["in a row", "at once"])
def test_nothing_is_left(warm, rounds, at_once, record_property):
    before, size = host(), service_size(warm)
    resident = memory(warm.process.pid, "Rss")
    for i in range(rounds):
        come_and_go(warm, [f"leak-{i}-{j}" for j in range(at_once)])
    assert_nothing_is_left(warm, before, size)
    grown = memory(warm.process.pid, "Rss") - resident
    record_property("service_grown_bytes", grown)
    print(f"{rounds} x {at_once} VMs: the service's memory grew by {grown / 2**20:.1f} MiB to "
          f"{memory(warm.process.pid, 'Rss') / 2**20:.0f} MiB")
    assert grown < (4 << 20) + rounds * at_once * 20_000, "flat, but for what it remembers of operations"


def test_what_an_idle_vm_costs(local, vm, record_property):
    """The worker, and the processes that it has put into the VM."""
    worker = local.worker_pid(vm)
    torus.eventually(lambda: not ssh_sessions(worker))
    helpers = {pid: memory(pid) for pid in descendants(worker)}
    cost = memory(worker) + sum(helpers.values())
    print(f"an idle VM: {cost / 2**20:.1f} MiB, of it the worker {memory(worker) / 2**20:.1f} MiB "
          f"(resident {memory(worker, 'Rss') / 2**20:.1f} MiB), {len(helpers)} processes in the VM")
    record_property("idle_vm_bytes", cost)
    assert helpers and cost <= IDLE_BAR


def descendants(pid):
    living = processes()
    found, queue = [], [pid]
    while queue:
        parent = queue.pop()
        children = [child for child, (its_parent, _, _) in living.items() if its_parent == parent]
        found += children
        queue += children
    return found


def ssh_sessions(worker):
    """Processes of logins that have not ended yet."""
    living = processes()
    return [p for p in descendants(worker) if p in living and "sshd: " in living[p][2] and "listener" not in living[p][2]]
