"""What a VM reaches: the Internet through the host, and nothing else; and who reaches it: the host.

The host here is a network namespace of the test's own with a service in it, and so are the machines
around it, so that each target is there and answers, as each control shows:

    far 203.0.113.2 --- 203.0.113.1 HOST 192.0.2.1 --- 192.0.2.2 lan (198.51.100.7 "the Internet",
     |                              |                               169.254.169.254 "its cloud")
    another network                 VMs
"""
import contextlib
import ctypes
import os
import pathlib
import shutil
import socket
import subprocess
import threading

import pytest

import torus
from tpu_vm import CREATE, DATA, LocalService, ssh_greets, tag

INTERNET, CLOUD, CLOUD6 = "198.51.100.7", "169.254.169.254", "fd00:ec2::254"
HOST, LAN, FAR = "192.0.2.1", "192.0.2.2", "203.0.113.2"
PORT = 8099
MOST_CONNECTIONS = 8192
FORWARDING = pathlib.Path("/proc/sys/net/ipv4/ip_forward")  # of the reader's network namespace

# Says how a connection ends: OK, or the error's name.
CONNECT = """
import errno, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
try:
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(1.5)
    s.connect((sys.argv[1], int(sys.argv[2]))); print("OK")
except TimeoutError: print("ETIMEDOUT")
except OSError as e: print(errno.errorcode[e.errno])
"""
DROPPED = "ETIMEDOUT"


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def enter(namespace):
    """Moves the calling thread, and what it starts, to the network namespace of that file."""
    with open(namespace) as file:
        assert ctypes.CDLL(None).setns(file.fileno(), 0x40000000) == 0


class Machine:
    """A network namespace, and servers in it that note who has come."""

    def __init__(self, name):
        self.name, self.path = name, f"/run/netns/{name}"
        run("ip", "netns", "add", name)
        self.ip("link", "set", "lo", "up")

    def ip(self, *arguments):
        return run("ip", "-n", self.name, *arguments)

    def call(self, function):
        """Calls the function on a thread that is in the namespace."""
        results = []

        def work():
            enter(self.path)
            results.append(function())
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return results[0]

    @contextlib.contextmanager
    def server(self, address, port=PORT, kind=socket.SOCK_STREAM):
        """Serves; yields the list of those who came."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET

        def make():
            listener = socket.socket(family, kind)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            return listener
        listener, came = self.call(make), []

        def serve():
            while True:
                try:
                    if kind == socket.SOCK_DGRAM:
                        peer = listener.recvfrom(100)[1]
                        if peer is None:
                            return
                        came.append(peer[0])
                        continue
                    connection, peer = listener.accept()
                except OSError:
                    return
                came.append(peer[0])
                connection.close()
        if kind == socket.SOCK_STREAM:
            listener.listen(64)
        thread = threading.Thread(target=serve)
        thread.start()
        yield came
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()

    def reaches(self, address, port=PORT):
        def connect():
            try:
                socket.create_connection((address, port), timeout=1.5).close()
                return True
            except OSError:
                return False
        return self.call(connect)


@pytest.fixture(scope="module")
def machines():
    host, lan, far = (Machine(f"torus-{name}-{os.getpid()}") for name in ("host", "lan", "far"))
    try:
        for other, near, there in ((lan, HOST, LAN), (far, "203.0.113.1", FAR)):
            host.ip("link", "add", other.name[:9], "type", "veth", "peer", "name", "eth0",
                    "netns", other.name)
            host.ip("addr", "add", f"{near}/24", "dev", other.name[:9])
            other.ip("addr", "add", f"{there}/24", "dev", "eth0")
            host.ip("link", "set", other.name[:9], "up")
            other.ip("link", "set", "eth0", "up")
            other.ip("route", "add", "default", "via", near)
        link = lan.name[:9]
        host.ip("route", "add", "default", "via", LAN)
        host.ip("route", "add", "169.254.0.0/16", "via", LAN)
        for address in (INTERNET, CLOUD, "169.254.0.23", "127.0.0.2"):
            lan.ip("addr", "add", f"{address}/32", "dev", "lo")
        if pathlib.Path("/proc/net/if_inet6").exists():
            host.ip("addr", "add", "fd00::1/64", "dev", link, "nodad")
            lan.ip("addr", "add", "fd00::2/64", "dev", "eth0", "nodad")
            lan.ip("addr", "add", f"{CLOUD6}/128", "dev", "lo", "nodad")
            host.ip("route", "add", f"{CLOUD6}/128", "via", "fd00::2")
        yield host, lan, far
    finally:
        for machine in (host, lan, far):
            run("ip", "netns", "delete", machine.name)


@pytest.fixture(scope="module")
def boxed(local, machines, tmp_path_factory):
    """A service whose host is the namespace; so is this thread until the last test is over."""
    folder = DATA.parent / f"{DATA.name}-network"
    shutil.rmtree(folder, ignore_errors=True)
    service = LocalService(tmp_path_factory.mktemp("home"), folder)
    here = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"
    own = os.open(here, os.O_RDONLY)
    enter(machines[0].path)
    try:
        FORWARDING.write_text("0")  # of the namespace: a new one begins as the host is
        service.start()
        service.vm("create", "inside", *CREATE)
        service.vm("create", "other", *CREATE)
        yield service
        service.delete_all()
    finally:
        service.stop()
        enter(f"/proc/self/fd/{own}")
        os.close(own)
        shutil.rmtree(folder, ignore_errors=True)


def attempt(boxed, address, port=PORT):
    """How root of the VM `inside` fares there."""
    return boxed.python("inside", CONNECT, address, port)


def test_the_internet_is_reached_as_the_host(boxed, machines):
    with machines[1].server(INTERNET) as came:
        assert attempt(boxed, INTERNET) == "OK"
    assert came == [HOST]


@pytest.mark.parametrize("address", [HOST, "203.0.113.1", "10.128.0.1"])
def test_the_hosts_own_addresses_are_out_of_reach(boxed, machines, address):
    with machines[0].server("0.0.0.0"):
        assert machines[0].reaches(address)
        assert address == "10.128.0.1" or machines[1].reaches(address)
        assert attempt(boxed, address) == DROPPED


def test_the_services_port_is_out_of_reach(boxed, machines):
    assert machines[0].reaches("127.0.0.1", boxed.port)
    assert attempt(boxed, "127.0.0.1", boxed.port) == "ECONNREFUSED", "that is the VM's own loopback"
    assert attempt(boxed, "10.128.0.1", boxed.port) == DROPPED


def test_another_vm_is_out_of_reach_and_the_host_reaches_both(boxed):
    assert ssh_greets(boxed.address("inside")) and ssh_greets(boxed.address("other"))
    assert attempt(boxed, boxed.address("inside"), 22) == "OK"
    assert attempt(boxed, boxed.address("other"), 22) == DROPPED


@pytest.mark.parametrize("address,port", [(CLOUD, 8080), ("169.254.0.23", 80)])
def test_the_hosts_own_cloud_is_out_of_reach(boxed, machines, address, port):
    with machines[1].server(address, port):
        assert machines[0].reaches(address, port)
        assert attempt(boxed, address, port) in (DROPPED, "ECONNREFUSED")


def test_the_metadata_server_is_the_vms_own_not_the_hosts(boxed, machines):
    with machines[1].server(CLOUD, 80) as came:
        assert machines[0].reaches(CLOUD, 80)
        assert attempt(boxed, CLOUD, 80) == "OK"
    assert came == [HOST], "the control's alone"


@pytest.mark.skipif(not os.path.exists("/proc/net/if_inet6"), reason="this kernel has no IPv6")
@pytest.mark.parametrize("address", [CLOUD6, "fd00::1"])
def test_ipv6_leads_nowhere(boxed, machines, address):
    with machines[1].server("::"), machines[0].server("::"):
        assert machines[0].reaches(address)
        assert attempt(boxed, address) in ("ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT")


def test_ipv6_cannot_be_switched_on(boxed):
    for command in ("echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "ip addr add fd00::9/64 dev eth0",
                    "ip link set eth0 addrgenmode eui64"):
        assert boxed.root("inside", command, check=False).returncode != 0, command


SPOOF = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] != "-": s.setsockopt(socket.SOL_IP, 15, 1); s.bind((sys.argv[1], 0))  # IP_FREEBIND
try: s.sendto(b"x", (sys.argv[2], int(sys.argv[3]))); print("sent")
except OSError as e: print("refused")
"""


@pytest.mark.parametrize("source,ends", [("169.254.169.254", "sent"), ("127.0.0.1", "refused"),
                                         (HOST, "refused"), ("OTHER", "refused")])
def test_no_packet_leaves_from_a_forged_source(boxed, machines, source, ends):
    source = boxed.address("other") if source == "OTHER" else source
    with machines[1].server("0.0.0.0", kind=socket.SOCK_DGRAM) as came:
        assert boxed.python("inside", SPOOF, source, INTERNET, PORT) == ends
        assert boxed.python("inside", SPOOF, "-", INTERNET, PORT) == "sent"
        torus.eventually(lambda: came)
    assert came == [HOST], "the honest packet alone, which was sent last"


@pytest.mark.parametrize("command", ["ip addr add 10.128.0.77/32 dev eth0", "ip link set eth0 down",
                                     "ip route add 10.128.0.0/16 dev eth0", "ip neigh flush all",
                                     "ip link set eth0 address 42:01:0a:80:00:01",
                                     "ip link add bridge type bridge", "ip rule add from all lookup 7"])
def test_its_links_and_routes_are_not_its_own_to_change(boxed, command):
    refused = boxed.root("inside", command, check=False)
    assert refused.returncode != 0 and "not permitted" in refused.stderr


def test_nobody_outside_reaches_a_vm(boxed, machines):
    address = boxed.address("inside")
    assert machines[0].reaches(address, 22)
    assert not machines[1].reaches(address, 22)
    assert not machines[2].reaches(address, 22)


def test_the_host_becomes_no_router_for_its_neighbours(boxed, machines):
    """The lan's way to the far network is the host, which forwards now, and did not before."""
    host, lan, far = machines
    assert FORWARDING.read_text() == "1\n"
    with far.server(FAR):
        assert host.reaches(FAR)
        assert not lan.reaches(FAR)
        # The control: without the rules it would be one.
        rules = run("nft", "list", "table", "inet", "torus_router")
        run("nft", "delete", "table", "inet", "torus_router")
        assert lan.reaches(FAR)
        run("nft", "-f", "-", input=rules)
        assert not lan.reaches(FAR)


def test_rules_that_the_host_has_lost_come_back(boxed, machines):
    """As after a restart of nftables.service, whose rules begin with "flush ruleset"."""
    table = f"torus_{tag(boxed.uid('inside'))}"
    with machines[0].server("0.0.0.0"):
        assert attempt(boxed, HOST) == DROPPED
        run("nft", "delete", "table", "inet", table)
        torus.eventually(lambda: table in run("nft", "list", "tables"), what="the VM's table")
        assert attempt(boxed, HOST) == DROPPED
    with machines[1].server(INTERNET):
        assert attempt(boxed, INTERNET) == "OK"
    run("nft", "delete", "table", "inet", "torus_router")
    torus.eventually(lambda: "torus_router" in run("nft", "list", "tables"), what="the router's table")


def test_abstract_sockets_are_the_hosts_own(boxed, machines):
    name = f"\0torus-test-{os.getpid()}"
    program = ("import socket, sys; s = socket.socket(socket.AF_UNIX)\n"
               "try: s.connect('\\0' + sys.argv[1]); print('OK')\n"
               "except ConnectionRefusedError: print('ECONNREFUSED')")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(name)
        assert boxed.python("inside", program, name[1:]) == "ECONNREFUSED"


FLOOD = """
import socket, sys
sent = 0
for port in range(20000, 60000):
    try:
        if sent % 100 == 0: s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.sendto(b"x", (sys.argv[1], port)); sent += 1
    except OSError: pass
print(sent)
"""


def test_connections_without_number_leave_room_in_the_hosts_table(boxed, machines):
    """The kernel counts the connections of the host and its VMs in one table."""
    def count():
        return int(pathlib.Path("/proc/sys/net/netfilter/nf_conntrack_count").read_text())
    before = count()
    assert int(boxed.python("inside", FLOOD, INTERNET)) > 3 * MOST_CONNECTIONS
    assert MOST_CONNECTIONS / 2 < count() - before < MOST_CONNECTIONS + 500
    with machines[1].server(INTERNET):
        assert machines[0].reaches(INTERNET), "the host goes on"
        assert boxed.python("other", CONNECT, INTERNET, PORT) == "OK", "and so do other VMs"
