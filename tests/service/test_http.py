"""HTTP as clients, browsers and attackers speak it, on the port that gRPC shares."""
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import torus

NODES = f"/v2/{torus.PARENT}/nodes"


def talk(service, data, shutdown=False):
    """Sends bytes on a connection of its own and returns all that comes back."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        try:
            connection.sendall(data)
            if shutdown:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = b""
        try:
            while chunk := connection.recv(65536):
                answer += chunk
        except ConnectionResetError:
            pass
        return answer


def get(host="localhost", extra="", path=NODES):
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{extra}Connection: close\r\n\r\n".encode()


def test_curl_works(service):
    done = subprocess.run(["curl", "-sS", service.url + NODES], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "{}"


def test_chunked_bodies_and_expect_100_work(service):
    body = b'{"acceleratorType": "v2-8", "runtimeVersion": "tpu-ubuntu2204-base"}'
    for i, header in enumerate(["Transfer-Encoding: chunked", "Expect: 100-continue"]):
        done = subprocess.run(
            ["curl", "-sS", "-X", "POST", "-H", header, "-H", "Content-Type: application/json",
             "--data-binary", "@-", f"{service.url}{NODES}?nodeId=n{i}"],
            input=body, capture_output=True)
        assert b'"done"' in done.stdout, done


def test_a_connection_is_kept_and_pipelined(service):
    request = f"GET {NODES} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    answer = talk(service, request * 3 + get())
    assert answer.count(b"HTTP/1.1 200 OK") == 4


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7470", "192.168.0.1"])
def test_foreign_hosts_are_refused(service, host):
    answer = talk(service, get(host))
    assert b" 403 " in answer.splitlines()[0] and b"loopback names only" in answer


def test_foreign_origins_are_refused(service):
    answer = talk(service, get(extra="Origin: https://evil.example\r\n"))
    assert b" 403 " in answer.splitlines()[0] and b"evil.example" in answer
    assert b" 200 " in talk(service, get(extra="Origin: http://localhost:1\r\n")).splitlines()[0]


@pytest.mark.parametrize("garbage", [
    b"\x00\x01\x02\x03garbage\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRY * HTTP/1.1\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 200])
def test_garbage_harms_nobody(service, garbage):
    talk(service, garbage, shutdown=True)
    assert b" 200 " in talk(service, get()).splitlines()[0]


def test_headers_and_bodies_have_limits(service):
    assert b" 431 " in talk(service, get(extra=f"X-Big: {'x' * 100_000}\r\n")).splitlines()[0]
    head = (f"POST {NODES}?nodeId=big HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {100 << 20}\r\n\r\n")
    assert b" 413 " in talk(service, head.encode()).splitlines()[0]


def test_a_client_that_still_sends_reads_why_it_was_refused(service):
    for size in (5 << 20, 12 << 20):
        status, answer = service.call("POST", f"{NODES}?nodeId=big", b"x" * size)
        assert status == 413 and "larger than" in answer["error"]["message"]


def test_head_gets_no_body(service):
    answer = talk(service, f"HEAD {NODES} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() + get())
    first, rest = answer.split(b"\r\n\r\n", 1)
    assert b" 200 " in first.splitlines()[0] and b"Content-Length: " in first
    assert rest.startswith(b"HTTP/1.1 200 OK")


def test_two_host_headers_are_refused(service):
    assert b" 400 " in talk(service, get(extra="Host: evil.example\r\n")).splitlines()[0]


def test_errors_are_google_rpc_status_in_json(service):
    status, answer = service.call("GET", NODES + "/nobody")
    assert status == 404
    assert answer["error"]["status"] == "NOT_FOUND" and answer["error"]["code"] == 404
    status, answer = service.call("POST", NODES + "?nodeId=n", b"{not json")
    assert status == 400 and answer["error"]["status"] == "INVALID_ARGUMENT"
    status, answer = service.call("POST", NODES + "?nodeId=n", b'{"description": "\xff"}')
    assert status == 400
    status, answer = service.call("POST", NODES + "?nodeId=n", torus.NODE | {"acceleratorTyp": "x"})
    assert status == 400 and "Unknown name \"acceleratorTyp\" at 'node'" in answer["error"]["message"]
    status, answer = service.call("POST", NODES + "?nodeId=n", torus.NODE | {"bootDiskConfig": {}})
    assert status == 200, "known to the discovery document only"
    deep = b'{"labels": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    status, answer = service.call("POST", NODES + "?nodeId=n2", deep)
    assert status == 400 and "too deep" in answer["error"]["message"]


def test_many_connections_at_once(service):
    connections = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(500)]
    for connection in connections:
        connection.sendall(get())
    assert all(b" 200 " in c.recv(4096) for c in connections)


def test_a_client_may_be_slow_to_speak_while_others_come_and_go(service):
    """The kernel's events of a connection that is gone may reach the one that took its place."""
    over = threading.Event()

    def come_and_go(i):
        own = (f"127.0.0.{10 + i}", 0)  # one address's ports would run out
        while not over.is_set():
            socket.create_connection(("127.0.0.1", service.port), timeout=20, source_address=own).close()
            time.sleep(0.001)

    def speak_late(i):
        with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
            time.sleep(i % 10 / 1000)
            connection.sendall(get())
            return connection.recv(100)[:12]

    with ThreadPoolExecutor(16) as pool:
        others = [pool.submit(come_and_go, i) for i in range(6)]
        try:
            assert set(pool.map(speak_late, range(2000))) == {b"HTTP/1.1 200"}
        finally:
            over.set()
        assert not any(other.exception() for other in others)


def test_a_silent_client_is_dropped(service):
    """10 s for the first bytes; a service with slow clients serves others meanwhile."""
    silent = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(20)]
    silent[0].sendall(b"PR")
    assert b" 200 " in talk(service, get()).splitlines()[0]
    for connection in silent:
        connection.settimeout(20)
        try:
            assert connection.recv(1) == b""
        except ConnectionResetError:
            pass  # what it had sent was never read
