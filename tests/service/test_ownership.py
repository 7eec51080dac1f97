"""One user's service is his own: other users of the machine are refused, read nothing, and learn nothing."""
import grp
import json
import os
import pwd
import re
import subprocess
import sys
import textwrap
import time

import pytest
import torus

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as several users")

OTHER = pwd.getpwnam("nobody")
THIRD = pwd.getpwnam("daemon")


def become(user):
    """For a child process to run as the user, without groups beyond his own."""
    def change():
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    return change


def as_user(user, *command, environment=None, check=False):
    return subprocess.run(command, preexec_fn=become(user), capture_output=True, text=True, timeout=60,
                          check=check, env={"PATH": os.environ["PATH"], "HOME": "/"} | (environment or {}))


def curl(user, service):
    """The HTTP status and the body that the user gets for the service's locations."""
    done = as_user(user, "curl", "-s", "-w", "\n%{http_code}",
                   f"{service.url}/v2/projects/p/locations")
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_another_user_is_refused_and_told_whom_to_ask(service):
    status, body = curl(OTHER, service)
    error = json.loads(body)["error"]
    assert (status, error["status"]) == (403, "PERMISSION_DENIED")
    assert "answers root only" in error["message"] and "--allow-group" in error["message"]
    assert service.call("GET", "/v2/projects/p/locations")[0] == 200, "the owner goes on"
    assert "connections of nobody are refused" in service.log.read_text()


def test_refusals_are_logged_once_a_user(service):
    for _ in range(20):
        curl(OTHER, service)
    assert service.log.read_text().count("are refused") == 1


GRPC_CALL = textwrap.dedent("""
    import sys, grpc
    channel = grpc.insecure_channel(sys.argv[1])
    call = channel.unary_unary("/google.cloud.location.Locations/ListLocations")
    try:
        call(b"", timeout=20)
        print("OK")
    except grpc.RpcError as error:
        print(error.code().name, error.details())
""")


def test_another_user_is_refused_by_grpc_in_the_same_words(service):
    command = ["/usr/bin/python3", "-c", GRPC_CALL, f"127.0.0.1:{service.port}"]
    libraries = {"PYTHONPATH": ":".join(p for p in sys.path if p)}
    theirs = as_user(OTHER, *command, environment=libraries)
    assert theirs.stdout.startswith("PERMISSION_DENIED This service answers root only"), theirs
    ours = subprocess.run(command, capture_output=True, text=True, env=os.environ | libraries)
    assert ours.stdout and "PERMISSION_DENIED" not in ours.stdout, "the owner is answered by the same means"


def test_both_address_families_are_guarded(new_service):
    service = new_service()
    service.flags.append("--listen=[::1]:0")
    offset = service.folder.mkdir(parents=True, exist_ok=True) or 0
    with open(service.log, "ab") as log:
        service.process = subprocess.Popen([torus.BINARY, "serve", *service.flags], stderr=log)
    found = torus.eventually(lambda: re.search(r"listening on \[::1\]:(\d+)", service.log.read_text()[offset:]))
    url = f"http://[::1]:{found.group(1)}/v2/projects/p/locations"
    ours = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url],
                          capture_output=True, text=True, check=True)
    theirs = as_user(OTHER, "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url)
    assert (ours.stdout, theirs.stdout) == ("200", "403")


def test_a_group_can_be_let_in(new_service):
    group = grp.getgrgid(OTHER.pw_gid).gr_name
    service = new_service(flags=[f"--allow-group={group}"]).start()
    assert curl(OTHER, service)[0] == 200
    status, body = curl(THIRD, service)
    assert status == 403 and f"root and the members of the group {group}" in body


@pytest.mark.parametrize("group", ["no-such-group", "4000000"])
def test_a_group_that_does_not_exist_is_named(new_service, group):
    service = new_service(flags=[f"--allow-group={group}"])
    service.spawn()
    assert service.process.wait(timeout=30) == 1
    service.process = None
    assert f"--allow-group {group}: there is no such group" in service.log.read_text()


def test_a_request_thrown_in_by_a_connection_that_closes_at_once_has_no_effect(service):
    """A closed socket has no owner, and the kernel then says root: no way in."""
    throw = textwrap.dedent(f"""
        import socket, struct
        for i in range(200):
            s = socket.create_connection(("127.0.0.1", {service.port}))
            body = b'{json.dumps(torus.NODE)}'
            s.sendall(b"POST /v2/{torus.PARENT}/nodes?nodeId=n%d HTTP/1.1\\r\\nHost: localhost\\r\\n"
                      b"Content-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n%s"
                      % (i, len(body), body))
            if i % 2: s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
    """)
    as_user(OTHER, "/usr/bin/python3", "-c", throw, check=True)
    time.sleep(0.5)
    assert service.ok("GET", f"/v2/{torus.PARENT}/nodes").get("nodes", []) == []


HOLD = textwrap.dedent("""
    import resource, socket, sys
    resource.setrlimit(resource.RLIMIT_NOFILE, (6000, 6000))
    held, begin = [], sys.argv[2].encode().decode("unicode_escape").encode()
    for _ in range(4500):
        s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        held.append(s)
        try: s.sendall(begin)
        except OSError: pass
    print("held", flush=True)
    sys.stdin.read()
""")


@pytest.mark.parametrize("begin", ["", "GET / HTTP/1.1\\r\\n", "PR", "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"],
                         ids=["silent", "http", "undecided", "grpc"])
def test_users_who_are_refused_do_not_shut_the_owner_out(service, begin):
    """However many connections another user holds open, and whatever he sends, they take no room."""
    files = f"/proc/{service.process.pid}/fd"
    before = len(os.listdir(files))
    holder = subprocess.Popen(["prlimit", "--nofile=6000", "/usr/bin/python3", "-c", HOLD, str(service.port), begin],
                              preexec_fn=become(OTHER), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        assert service.call("GET", "/v2/projects/p/locations")[0] == 200
        torus.eventually(lambda: len(os.listdir(files)) < before + 100, 8, "few descriptors in use")
    finally:
        holder.communicate()


def test_a_user_who_is_not_root_owns_his_service_and_keeps_others_out(tmp_path):
    """The service of an ordinary user: he and root may, a third may not."""
    os.chmod(tmp_path, 0o755)
    for folder in list(tmp_path.parents)[:2]:
        os.chmod(folder, 0o755)
    folder = tmp_path / "own"
    folder.mkdir()
    os.chown(folder, OTHER.pw_uid, OTHER.pw_gid)
    log = open(tmp_path / "log", "wb")
    process = subprocess.Popen([torus.BINARY, "serve", "--listen=127.0.0.1:0", "--backend=fake",
                                f"--data-dir={folder}/data"], preexec_fn=become(OTHER), stderr=log)
    try:
        found = torus.eventually(lambda: re.search(r"listening on \S+:(\d+)", (tmp_path / "log").read_text()))
        service = torus.Service(tmp_path)
        service.port = int(found.group(1))
        assert curl(OTHER, service)[0] == 200
        assert service.call("GET", "/v2/projects/p/locations")[0] == 200, "root may"
        assert curl(THIRD, service)[0] == 403
    finally:
        process.terminate()
        process.wait(timeout=30)


def test_the_data_folder_is_its_owners_alone(service):
    service.create("n1")
    data = service.folder / "data"
    for path in [data, *data.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0 or path.is_symlink(), f"{path} is open to others"
    assert as_user(OTHER, "ls", str(data)).returncode != 0


SECRET = "s3cr3t-Tok3n-4711"


def test_nothing_secret_is_logged(new_service):
    """What a user sends in confidence (scripts, tokens, keys) is in no line of the log, at any level."""
    service = new_service(flags=["--log-level=debug"]).start()
    service.wait(service.create("n1", metadata={"startup-script": f"export TOKEN={SECRET}"},
                                labels={"team": "a"}))
    name = f"/v2/{torus.PARENT}/nodes/n1"
    service.wait(service.ok("PATCH", name + "?updateMask=metadata", {"metadata": {"token": SECRET}}))
    for path in (f"{name}?access_token={SECRET}", f"/v2/nowhere/{SECRET}", f"{name}?bad={SECRET}"):
        service.call("GET", path, headers={"Authorization": f"Bearer {SECRET}"})
    service.call("POST", f"/v2/{torus.PARENT}/nodes?nodeId=n2", b'{"metadata": {"x": "' + SECRET.encode())
    service.call("POST", f"/v2/{torus.PARENT}/nodes?nodeId=n3", torus.NODE | {"metadata": {SECRET: 7}})
    service.stop()
    service.start()
    log = service.log.read_text()
    assert "nodes/n1 is READY" in log and SECRET not in log
