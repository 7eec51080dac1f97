"""The metadata server is the worker's: what a VM does to it harms the VM alone, and costs the host little."""
import pathlib
import re

import pytest

import torus

# A client of our own: curl is polite. Prints what the last server's answer began with.
CLIENT = r"""
import socket, sys, time
def connect():
    s = socket.create_connection(("169.254.169.254", 80), timeout=15)
    return s
def ask(path="project/project-id", extra="", method="GET", body=b"", header="Metadata-Flavor: Google\r\n"):
    s = connect()
    s.sendall(f"{method} /computeMetadata/v1/{path} HTTP/1.1\r\nHost: x\r\n{header}{extra}"
              f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    answer = b""
    try:
        while chunk := s.recv(65536): answer += chunk
    except ConnectionResetError:
        answer = answer or b"HTTP/1.1 413 closed before all was sent"
    return answer.decode("latin1")
def status(answer): return int(answer.split()[1]) if answer else 0
"""


def inside(local, vm, program):
    return local.python(vm, CLIENT + program)


def worker_memory(local, vm):
    """The worker's resident memory in MiB."""
    text = pathlib.Path(f"/proc/{local.worker_pid(vm)}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024


@pytest.fixture(autouse=True)
def its_own_harm_alone(local, vm, witness):
    with witness:
        yield
    assert worker_memory(local, vm) < 150
    torus.eventually(lambda: inside(local, vm, "print(status(ask()))") == "200")


def test_a_thousand_open_connections(local, vm, neighbour):
    """256 are served; the rest are closed, and the VM's alone."""
    held = ("held = []\n"
            "for _ in range(1000):\n"
            "    try: held.append(connect())\n"
            "    except OSError: break\n"
            "time.sleep(0.5); alive = 0\n"
            "for s in held:\n"
            "    s.setblocking(False)\n"
            "    try: s.recv(1)\n"
            "    except BlockingIOError: alive += 1\n"
            "    except OSError: pass\n"
            "print(len(held), alive)")
    made, alive = map(int, inside(local, vm, held).split())
    assert made == 1000 and 0 < alive <= 256
    assert inside(local, neighbour, "print(status(ask()))") == "200"


def test_slow_loris(local, vm):
    """A request that comes a byte a second is given up after ten."""
    slow = ("s = connect(); begin = time.time()\n"
            "try:\n"
            "    for byte in b'GET /computeMetadata/v1/project/project-id HTTP/1.1':\n"
            "        s.send(bytes([byte])); time.sleep(0.5)\n"
            "        s.setblocking(False)\n"
            "        try:\n"
            "            if s.recv(1) == b'': break\n"
            "        except BlockingIOError: pass\n"
            "        s.setblocking(True)\n"
            "except OSError: pass\n"
            "print(round(time.time() - begin))")
    assert 8 <= int(inside(local, vm, slow)) <= 13


@pytest.mark.parametrize("extra,wanted", [
    ("X: '+ 'a' * 1000 + '", 200),  # the control
    ("X: '+ 'a' * 100000 + '", 413),
    ("' + 'X: a\\r\\n' * 20000 + 'Y: a", 413),
])
def test_huge_headers(local, vm, extra, wanted):
    assert inside(local, vm, f"print(status(ask(extra='{extra}\\r\\n')))") == str(wanted)


@pytest.mark.parametrize("program,wanted", [
    ("ask()", 200),
    ("ask(header='')", 403),
    ("ask(extra='X-Forwarded-For: 10.0.0.1\\r\\n')", 403),
    ("ask(path='../../../etc/passwd')", 404),
    ("ask(path='..%2f..%2fetc/passwd')", 404),
    ("ask(path='instance/attributes/', method='POST')", 405),
    ("ask(path='instance/id', method='PUT', body=b'1')", 404),
    ("ask(path='instance/guest-attributes/../x', method='PUT', body=b'1')", 404),
    ("ask(path='instance/guest-attributes/a/b', method='PUT', body=b'x' * 70000)", 413),
    ("ask(path='instance/guest-attributes/a/b', method='PUT', body=b'\\xff\\xfe')", 400),
])
def test_odd_requests(local, vm, program, wanted):
    assert inside(local, vm, f"print(status({program}))") == str(wanted)


def test_guest_attributes_are_bounded_together(local, vm):
    """256 KiB a VM, of which the service keeps the newest."""
    fill = ("codes = [status(ask(path=f'instance/guest-attributes/fill/{i}', method='PUT', body=b'x' * 60000))\n"
            "         for i in range(8)]\n"
            "print(*codes)\n"
            "for i in range(8): ask(path=f'instance/guest-attributes/fill/{i}', method='DELETE')")
    codes = inside(local, vm, fill).split()
    assert codes[0] == "200" and codes[-1] == "413"


def test_its_host_keys_are_not_its_to_forge(local, vm):
    """Clients trust what the service says of them."""
    def keys():
        query = f"/v2/{torus.PARENT}/nodes/{vm}:getGuestAttributes"
        found = local.ok("POST", query, {"queryPath": "hostkeys/"})["guestAttributes"][0]["queryValue"]["items"]
        return {item["key"]: item["value"] for item in found}
    before = keys()
    assert inside(local, vm, "print(status(ask(path='instance/guest-attributes/hostkeys/ssh-ed25519', "
                             "method='PUT', body=b'forged')))") == "200"
    assert inside(local, vm, "print(status(ask(path='instance/guest-attributes/mine/mark', "
                             "method='PUT', body=b'1')))") == "200"

    def marked():
        query = f"/v2/{torus.PARENT}/nodes/{vm}:getGuestAttributes"
        return local.call("POST", query, {"queryPath": "mine/mark"})[0] == 200
    torus.eventually(marked)
    assert keys() == before


def test_a_flood_of_requests(local, vm):
    """Three seconds of asking as fast as it can, a hundred waiting for a change beside it."""
    flood = ("waiting = []\n"
             "for _ in range(100):\n"
             "    s = connect(); waiting.append(s)\n"
             "    s.sendall(b'GET /computeMetadata/v1/?recursive=true&wait_for_change=true HTTP/1.1\\r\\n'\n"
             "              b'Host: x\\r\\nMetadata-Flavor: Google\\r\\n\\r\\n')\n"
             "end, count = time.time() + 3, 0\n"
             "while time.time() < end: ask(path='?recursive=true'); count += 1\n"
             "print(count)")
    assert int(inside(local, vm, flood)) > 100


def test_writes_without_end_reach_the_service_once_a_tick(local, vm):
    """A VM that writes an attribute as fast as it can is not heard as often."""
    database = local.folder / "data/torus.db-wal"
    before = database.stat().st_size if database.exists() else 0
    flood = ("end, count = time.time() + 3, 0\n"
             "while time.time() < end:\n"
             "    ask(path='instance/guest-attributes/a/b', method='PUT', body=b'%d' % count + b'x' * 50000); count += 1\n"
             "print(count)")
    assert int(inside(local, vm, flood)) > 100
    assert not database.exists() or database.stat().st_size - before < 16 << 20


def test_only_the_vm_reaches_its_metadata_server(local, vm, neighbour):
    """It listens in the VM's network alone: not at the VM's address, not on the host's."""
    program = ("try: socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1.5); print('OK')\n"
               "except OSError as e: print(type(e).__name__)")
    for who in (vm, neighbour):
        answers = [local.python(who, CLIENT + program, local.address(vm), port) for port in (80, 8047)]
        assert "OK" not in answers, (who, answers)
    assert local.python(vm, CLIENT + program, "169.254.169.254", 80) == "OK"
