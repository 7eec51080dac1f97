"""The service as a process: how it starts, refuses to start, stops, and what a crash leaves."""
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

import torus


def refusal(service):
    """What the service says when it does not start."""
    service.spawn()
    assert service.process.wait(timeout=30) == 1
    service.process = None
    return service.log.read_text()


def test_sigterm_drains_and_exits_with_0(service):
    service.create("n1")
    assert service.stop() == 0


def test_a_request_under_way_is_answered_before_the_stop(service):
    connection = socket.create_connection(("127.0.0.1", service.port))
    head = (f"POST /v2/{torus.PARENT}/nodes?nodeId=slow HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Length: 74\r\nConnection: close\r\n\r\n")
    body = b'{"acceleratorType": "v2-8", "runtimeVersion": "tpu-ubuntu2204-base"      }'
    connection.sendall(head.encode() + body)
    assert b"200 OK" in connection.recv(4096)
    assert service.stop() == 0


def test_a_second_instance_is_refused_with_the_pid_of_the_first(service, new_service):
    second = new_service()
    second.flags[0] = service.flags[0]
    text = refusal(second)
    assert f"in use by a torus with pid {service.process.pid}" in text and "--data-dir" in text


def test_a_taken_port_is_named(service, new_service):
    second = new_service()
    second.port = service.port
    text = refusal(second)
    assert f"127.0.0.1:{service.port}" in text and "in use" in text and "--listen" in text


@pytest.mark.parametrize("address", ["0.0.0.0:7470", "10.0.0.1:7470", "[::]:7470"])
def test_an_address_that_is_not_loopback_is_refused(new_service, address):
    service = new_service(flags=[f"--listen={address}"])
    done = subprocess.run([torus.BINARY, "serve", *service.flags], capture_output=True, text=True,
                          timeout=30)
    assert done.returncode == 1 and "not a loopback address" in done.stderr


def test_a_data_folder_that_cannot_be_made_is_named(new_service):
    service = new_service()
    service.flags[0] = "--data-dir=/proc/torus"
    assert "/proc/torus" in refusal(service)


def test_a_data_folder_of_a_newer_schema_is_refused(new_service):
    service = new_service().start()
    service.stop()
    database = service.folder / "data/torus.db"
    subprocess.run(["python3", "-c", f"import sqlite3; c = sqlite3.connect({str(database)!r}); "
                    "c.execute('PRAGMA user_version=99')"], check=True)
    assert "schema version 99" in refusal(service)


@pytest.mark.parametrize("flag", ["--backend=moon", "--nonsense", "--catalogue=/missing.toml"])
def test_a_wrong_flag_exits_with_2_and_is_named(flag):
    done = subprocess.run([torus.BINARY, "serve", flag], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert flag.split("=")[0] in done.stderr + done.stdout


def test_options_come_from_a_toml_file_too(new_service, tmp_path):
    config = tmp_path / "torus.toml"
    config.write_text('backend = "fake"\nlog-level = "error"\n')
    service = new_service(flags=[f"--config={config}"])
    service.flags.remove("--backend=fake")
    service.spawn()
    time.sleep(0.5)
    assert service.process.poll() is None
    assert service.log.read_text() == "", "log-level is error"


@pytest.mark.parametrize("text", ["nope = 3\n", "backend = [\n", 'backend = "moon"\n'])
def test_a_wrong_config_file_is_refused(tmp_path, text):
    config = tmp_path / "torus.toml"
    config.write_text(text)
    done = subprocess.run([torus.BINARY, "serve", f"--config={config}", f"--data-dir={tmp_path / 'd'}"],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and str(config) in done.stderr, done.stderr


def test_a_folder_with_other_files_is_no_data_folder(new_service, tmp_path):
    (tmp_path / "theirs").mkdir(mode=0o755)
    (tmp_path / "theirs/file").write_text("x")
    service = new_service()
    service.flags[0] = f"--data-dir={tmp_path / 'theirs'}"
    assert "holds other files" in refusal(service)
    assert (tmp_path / "theirs").stat().st_mode & 0o777 == 0o755


def test_the_data_folder_is_its_owners_alone(service):
    data = service.folder / "data"
    service.create("n1")
    assert data.stat().st_mode & 0o777 == 0o700
    assert all(p.stat().st_mode & 0o077 == 0 for p in data.glob("torus.db*"))


def test_an_operators_catalogue_adds_zones(new_service, tmp_path):
    catalogue = tmp_path / "catalogue.toml"
    catalogue.write_text('[[zones]]\nname = "my-lab-a"\naccelerator_types = ["v2-8"]\n')
    service = new_service(flags=[f"--catalogue={catalogue}"]).start()
    path = f"/v2/projects/{torus.PROJECT}/locations/my-lab-a/nodes"
    service.wait(service.ok("POST", path + "?nodeId=n1", torus.NODE))
    assert service.ok("GET", path + "/n1")["state"] == "READY"


def test_what_was_answered_survives_a_kill(service):
    """Creates nodes from several threads while the service is killed; every answer must hold."""
    answered, stop = [], threading.Event()

    def client(number):
        i = 0
        while not stop.is_set():
            name = f"c{number}-{i}"
            try:
                answered.append((name, service.create(name)["name"]))
            except (OSError, ConnectionError):
                time.sleep(0.05)
            i += 1

    clients = [threading.Thread(target=client, args=(n,)) for n in range(4)]
    for thread in clients:
        thread.start()
    for _ in range(3):
        time.sleep(0.5)
        service.kill()
        service.start()
    stop.set()
    for thread in clients:
        thread.join()
    assert len(answered) > 20
    for name, operation in answered:
        service.wait({"name": operation})
        assert service.node(name)["state"] == "READY"


@pytest.fixture
def small_disk(new_service):
    """small_disk(size) serves on a disk of that size, which goes with the test."""
    if os.geteuid() != 0:
        pytest.skip("mounts a small disk, which needs root")
    mounted = []

    def serve(size):
        service = new_service()
        data = service.folder / "data"
        data.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", data], check=True)
        mounted.append((service, data))
        return service.start(), data

    yield serve
    for service, data in mounted:
        service.kill()
        subprocess.run(["umount", "-l", data], check=True)


def test_a_full_disk_refuses_changes_and_loses_nothing(small_disk):
    service, data = small_disk("4m")
    service.wait(service.create("before"))
    filler = data / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    refused = None
    for i in range(200):  # the log may have room left that it reserved before
        status, answer = service.call("POST", f"/v2/{torus.PARENT}/nodes?nodeId=n{i}",
                                      torus.NODE | {"description": "x" * 500})
        if status != 200:
            refused = status, answer["error"]["message"]
            break
    assert refused and refused[0] == 429 and "is full" in refused[1]
    assert service.node("before")["state"] == "READY", "reads go on"
    filler.unlink()
    service.wait(service.create("after"))


def test_a_disk_that_fills_under_many_writers_loses_nothing(small_disk):
    service, _ = small_disk("6m")
    answers = {}

    def create(name):
        metadata = {"k": "x" * 200_000, "l": "y" * 200_000}
        answers[name] = service.call("POST", f"/v2/{torus.PARENT}/nodes?nodeId={name}",
                                     torus.NODE | {"metadata": metadata})[0]
    threads = [threading.Thread(target=create, args=(f"n{i}",)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers.values()) == {200, 429}, answers
    for name, status in answers.items():
        assert (service.node(name) is not None) == (status == 200), name


def test_stop_does_not_hang_on_an_idle_connection(service):
    connections = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(3)]
    connections[0].sendall(b"GET / HTTP/1.1\r\n")
    connections[1].sendall(b"PR")
    started = time.monotonic()
    assert service.stop(signal.SIGINT) == 0
    assert time.monotonic() - started < 15
