"""The torus command against a fake service: what it asks, what it prints, how it exits.

TORUS names the binary; without it, build/release/torus. Needs no root and no real service.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from fake_service import PARENT, FakeService  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORUS = os.environ.get("TORUS", str(ROOT / "build/release/torus"))
NODE = f"{PARENT}/nodes/my-tpu"


@pytest.fixture
def service():
    fake = FakeService()
    yield fake
    fake.close()


@pytest.fixture
def environment(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("ssh", "scp"):  # they say what they were asked, and exit as $SSH_STATUS says
        program = programs / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\nexit ${{SSH_STATUS:-0}}\n')
        program.chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "LOGNAME": "ada"}


@pytest.fixture
def torus(service, environment):
    def run(*arguments, rc=0, env=None, stdin=""):
        result = subprocess.run(
            [TORUS, *arguments], capture_output=True, text=True, timeout=30, input=stdin,
            env=environment | {"TORUS_ENDPOINT": service.url,
                               "CLOUDSDK_COMPUTE_ZONE": "us-central1-a"} | (env or {}))
        assert result.returncode == rc, result.stderr
        return result

    return run


def create(torus, *more, **kwargs):
    return torus("tpu-vm", "create", "my-tpu", "--version=tpu-ubuntu2204-base", *more, **kwargs)


def test_create_sends_what_gcloud_sends(torus, service, tmp_path):
    (tmp_path / "setup.sh").write_text("echo hi\n")
    create(torus, "--accelerator-type=V3-8", "--labels=a=b,c=d", "--tags=x,y", "--spot",
           "--metadata=^:^k=1,2:l=3", f"--metadata-from-file=startup-script={tmp_path}/setup.sh",
           "--description=a test")
    method, path, query, body = service.requests[0]
    assert (method, path, query) == ("POST", f"{PARENT}/nodes", {"nodeId": "my-tpu"})
    assert body == {
        "description": "a test",
        "acceleratorType": "v3-8",
        "runtimeVersion": "tpu-ubuntu2204-base",
        "labels": {"a": "b", "c": "d"},
        "metadata": {"k": "1,2", "l": "3", "startup-script": "echo hi\n"},
        "networkConfig": {"network": "default", "enableExternalIps": True},
        "schedulingConfig": {"spot": True},
        "tags": ["x", "y"],
    }


def test_create_by_topology(torus, service):
    create(torus, "--type=v5litepod", "--topology=2x4")
    body = service.requests[0][3]
    assert body["acceleratorConfig"] == {"type": "V5LITE_POD", "topology": "2x4"}
    assert "acceleratorType" not in body


def test_create_waits_and_shows_progress(torus, service):
    result = create(torus)
    assert "Making the image" in result.stderr
    assert "Created tpu [my-tpu]." in result.stderr
    assert result.stdout == ""
    assert [r[0] for r in service.requests] == ["POST", "GET", "GET"]


def test_create_prints_the_node_if_asked(torus):
    assert json.loads(create(torus, "--format=json").stdout)["state"] == "READY"


def test_async_returns_at_once(torus, service):
    result = create(torus, "--async")
    assert len(service.requests) == 1
    assert f"torus operations describe {PARENT}/operations/operation-1" in result.stderr


def test_a_failed_operation_exits_1(torus, service):
    service.fail_operations_with = {"code": 8, "message": "There is no more capacity in the zone"}
    result = create(torus, rc=1)
    assert ("ERROR: (torus.tpu-vm.create) RESOURCE_EXHAUSTED: There is no more capacity"
            in result.stderr)


def test_a_failed_operation_says_why_once(torus, service):
    reason = "There is no more capacity in the zone"
    service.fail_operations_with = {"code": 8, "message": reason}
    service.details = ["Making the image", "Starting", reason, reason]  # then it is undone
    service.polls = 5
    stderr = create(torus, rc=1).stderr
    assert stderr.splitlines() == [
        "Creating tpu [my-tpu]...", "  Making the image", "  Starting",
        f"ERROR: (torus.tpu-vm.create) RESOURCE_EXHAUSTED: {reason}"]


def test_progress_lines_are_printed_once(torus, service):
    service.details = ["Making the image: 1 s", "Making the image: 1 s", "Making the image: 2 s"]
    service.polls = 6
    assert create(torus).stderr.splitlines() == [
        "Creating tpu [my-tpu]...", "  Making the image: 1 s", "  Making the image: 2 s",
        "Created tpu [my-tpu]."]


def test_flags_of_every_command_may_stand_before_it(torus, service, environment):
    for i in range(2):
        service.add_node(f"tpu-{i}")
    elsewhere = {"TORUS_ENDPOINT": "http://127.0.0.1:1"}
    first = torus("--endpoint", service.url, "--project=p", "--format", "value(name.basename())",
                  "tpu-vm", "list", env=elsewhere)
    assert first.stdout.split() == ["tpu-0", "tpu-1"]
    assert service.requests[0][1] == "projects/p/locations/us-central1-a/nodes"
    torus("--project=p", "tpu-vm", "--project=q", "list")
    assert service.requests[-1][1].startswith("projects/q/")
    torus("--project=p", "tpu-vm", "list", "--project=r")  # the last one wins
    assert service.requests[-1][1].startswith("projects/r/")
    torus("--quiet", "tpu-vm", "delete", "tpu-0", stdin="n\n")
    assert len(service.nodes) == 1


def test_a_repeated_key_is_taken_as_gcloud_takes_it(torus, service):
    create(torus, "--metadata=a=b,a=c", "--labels=a=b,a=c")
    assert service.requests[0][3]["metadata"] == {"a": "c"}
    assert service.requests[0][3]["labels"] == {"a": "c"}


def test_the_services_error_exits_1(torus):
    result = torus("tpu-vm", "describe", "my-tpu", rc=1)
    assert (f"ERROR: (torus.tpu-vm.describe) NOT_FOUND: Resource '{NODE}' was not found"
            in result.stderr)


@pytest.mark.parametrize("arguments, says", [
    ([], "give a command"),
    (["bogus"], 'there is no command "bogus"'),
    (["tpu-vm", "bogus"], 'there is no command "bogus": one of create'),
    (["tpu-vm", "create", "x"], "--version is required"),
    (["tpu-vm", "create", "x", "--version=1", "--labels=x"], "not KEY=VALUE"),
    (["tpu-vm", "create", "x", "--version=1", "--type=v4"], "--topology"),
    (["tpu-vm", "create", "x", "--version=1", "--type=v9", "--topology=2x2"], "v5litepod"),
    (["tpu-vm", "create", "x", "--version=1", "--bogus"], 'there is no flag "--bogus"'),
    (["tpu-vm", "list", "x", "y"], "not expected: x y\n"),
    (["tpu-vm", "--bogus=1", "list"], 'there is no flag "--bogus"\n'),
    (["--bogus"], 'there is no flag "--bogus"\n'),
    (["--zone", "z", "tpu-vm", "list"], "--zone goes after the command: torus tpu-vm list --zone"),
    (["--quiet", "serve"], '"serve" takes no flags before its name'),
    (["--format=xml", "tpu-vm", "list"], "valid formats: json"),
    (["tpu-vm", "list", "--limit=-1"], "--limit: must be a positive number\n"),
    (["operations", "list", "--limit=0"], "--limit: must be a positive number\n"),
    (["locations", "list", "--limit=x"], "--limit: must be a positive number\n"),
    (["tpu-vm", "create", "x", "--version=1", "--queue-count=0"], "must be a positive number\n"),
    (["tpu-vm", "describe"], "TPU is required"),
    (["tpu-vm", "create", "x", "--version=1", "--data-disk=mode=read-only"], "source=DISK"),
    (["tpu-vm", "list", "--format=xml"], "valid formats: json"),
    (["tpu-vm", "describe", "a/b"], "projects/PROJECT/locations/ZONE"),
    (["tpu-vm", "scp", "a", "b"], "one side must be one TPU VM"),
    (["tpu-vm", "list", "--", "x"], 'nothing may follow "--"'),
    (["env", "--shell=csh"], "bash, zsh"),
    (["completion", "csh"], "bash"),
])
def test_a_wrong_command_line_exits_2(torus, service, arguments, says):
    result = torus(*arguments, rc=2)
    assert says in result.stderr
    assert "--help" in result.stderr
    assert service.requests == []


def test_no_zone_is_a_wrong_command_line(torus):
    result = torus("tpu-vm", "describe", "x", rc=2, env={"CLOUDSDK_COMPUTE_ZONE": ""})
    assert "--zone=us-central1-a" in result.stderr


def test_an_unreachable_service_is_named(torus):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = torus("tpu-vm", "list", f"--endpoint=http://127.0.0.1:{port}", rc=1)
    assert f"cannot reach Torus at http://127.0.0.1:{port}" in result.stderr
    assert "torus serve" in result.stderr


def test_an_endpoint_that_is_no_address(torus):
    result = torus("tpu-vm", "list", "--endpoint=127.0.0.1:7470", rc=1)
    assert "http://127.0.0.1:7470" in result.stderr


def test_list_reads_all_pages_into_gclouds_columns(torus, service):
    for i in range(5):
        service.add_node(f"tpu-{i}")
    lines = torus("tpu-vm", "list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "ZONE", "ACCELERATOR_TYPE", "TYPE", "TOPOLOGY", "NETWORK",
                                "RANGE", "STATUS"]
    assert lines[5].split() == ["tpu-4", "us-central1-a", "v2-8", "default", "10.128.0.0/20",
                                "READY"]
    assert len(lines) == 6
    assert len(torus("tpu-vm", "list", "--limit=3").stdout.splitlines()) == 4


def test_an_empty_list(torus):
    result = torus("tpu-vm", "list")
    assert (result.stdout, result.stderr) == ("", "Listed 0 items.\n")
    assert json.loads(torus("tpu-vm", "list", "--format=json").stdout) == []


def test_list_without_a_zone_asks_for_all(torus, service):
    torus("tpu-vm", "list", env={"CLOUDSDK_COMPUTE_ZONE": ""})
    assert service.requests[0][1] == "projects/torus/locations/-/nodes"


def test_formats(torus, service):
    service.add_node("my-tpu", metadata={"k": "true", "n": "12", "lines": "a\nb"})
    out = torus("tpu-vm", "describe", "my-tpu").stdout
    assert "state: READY\n" in out and "k: 'true'\n" in out and "id: '42'\n" in out
    fields = list(json.loads(torus("tpu-vm", "describe", "my-tpu", "--format=json").stdout))
    assert fields == list(service.nodes[NODE])
    values = torus("tpu-vm", "describe", "my-tpu",
                   "--format=value(name.basename(), networkEndpoints[0].ipAddress, state)").stdout
    assert values == "my-tpu\t10.128.0.2\tREADY\n"
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(out) == service.nodes[NODE]


def test_stop_start_delete(torus, service):
    service.add_node("my-tpu")
    assert "Stopped tpu [my-tpu]." in torus("tpu-vm", "stop", "my-tpu").stderr
    assert service.nodes[NODE]["state"] == "STOPPED"
    assert "Started tpu [my-tpu]." in torus("tpu-vm", "start", NODE).stderr
    refused = torus("tpu-vm", "delete", "my-tpu", stdin="n\n", rc=130)
    assert "nothing changed" in refused.stderr and NODE in service.nodes
    assert "Deleted tpu [my-tpu]." in torus("tpu-vm", "delete", "my-tpu", "--quiet").stderr
    assert service.nodes == {}


def test_update_sends_only_what_changes(torus, service):
    service.add_node("my-tpu", labels={"a": "1", "b": "2"}, tags=["t"], metadata={"m": "1"})
    torus("tpu-vm", "update", "my-tpu", "--update-labels=a=9", "--remove-labels=b", "--add-tags=s",
          "--description=new")
    patch = next(r for r in service.requests if r[0] == "PATCH")
    assert patch[2] == {"updateMask": "description,labels,tags"}
    assert patch[3] == {"description": "new", "labels": {"a": "9"}, "tags": ["s", "t"]}
    assert "nothing would change" in torus("tpu-vm", "update", "my-tpu", rc=1).stderr


def test_operations(torus, service):
    create(torus, "--async")
    lines = torus("operations", "list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "ZONE", "VERB", "TARGET", "START_TIME", "DONE", "ERROR"]
    assert lines[1].split() == ["operation-1", "us-central1-a", "create", "my-tpu", "False"]
    assert "verb: create" in torus("operations", "describe", "operation-1").stdout


def test_catalogue_lists(torus):
    assert torus("accelerator-types", "list").stdout.split() == ["ACCELERATOR_TYPE", "v2-8",
                                                                 "v2-32", "v3-8"]
    assert torus("locations", "list").stdout.splitlines()[1].split() == ["us-central1-a", PARENT]


def test_ctrl_c_leaves_the_operation(service, environment):
    service.polls = 10**6
    process = subprocess.Popen(
        [TORUS, "tpu-vm", "create", "my-tpu", "--zone=us-central1-a", "--version=x"],
        env=environment | {"TORUS_ENDPOINT": service.url}, stderr=subprocess.PIPE, text=True)
    while len(service.requests) < 3:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert f"torus operations describe {PARENT}/operations/operation-1" in stderr


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
def test_ssh(torus, service, tmp_path):
    service.add_node("my-tpu")
    result = torus("tpu-vm", "ssh", "my-tpu", "--command=nproc; id", env={"SSH_STATUS": "7"}, rc=7)
    line = result.stdout
    assert line.endswith("ada@127.0.0.2 -- nproc; id\n")
    assert "HostKeyAlias=tpu.42-0" in line and "StrictHostKeyChecking=yes" in line
    public_key = (tmp_path / ".ssh/google_compute_engine.pub").read_text().split()[:2]
    assert service.nodes[NODE]["metadata"]["ssh-keys"] == f"ada:{' '.join(public_key)} ada"
    assert (tmp_path / ".ssh/google_compute_known_hosts").read_text() == (
        "tpu.42-0 ssh-ed25519 AAAAhostkey\n")
    before = len(service.requests)
    torus("tpu-vm", "ssh", "grace@my-tpu", "--", "-L", "80:%TPU%:80")
    torus("tpu-vm", "ssh", "my-tpu")
    # The first adds grace's key; the second finds ada's there and changes nothing.
    assert [r[0] for r in service.requests[before:]].count("PATCH") == 1
    assert len(service.nodes[NODE]["metadata"]["ssh-keys"].splitlines()) == 2


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
def test_ssh_to_all_workers(torus, service, tmp_path):
    service.add_node("my-tpu", networkEndpoints=[{"ipAddress": f"10.0.0.{i}"} for i in range(3)])
    result = torus("tpu-vm", "ssh", "my-tpu", "--worker=all", "--command=hostname")
    assert len(result.stdout.splitlines()) == 3
    logs = tmp_path / "logs"
    logs.mkdir()
    torus("tpu-vm", "ssh", "my-tpu", "--worker=1-2", "--command=hostname",
          f"--output-directory={logs}")
    assert sorted(p.name for p in logs.iterdir()) == ["1.log", "2.log"]
    assert "ada@10.0.0.1 -- hostname" in (logs / "1.log").read_text()
    assert "0 to 2" in torus("tpu-vm", "ssh", "my-tpu", "--worker=3", rc=1).stderr


def test_a_worker_that_does_not_exist(torus, service):
    service.add_node("my-tpu")
    stderr = torus("tpu-vm", "ssh", "my-tpu", "--worker=7", rc=1).stderr
    assert "worker 7 does not exist; this node has one worker, 0\n" in stderr


def test_the_doctor_asks_the_node_and_its_workers(torus, service, environment, tmp_path):
    (tmp_path / "bin/ssh").write_text("#!/bin/sh\ncase \"$*\" in *10.0.0.1*) echo no route >&2; exit 255;; esac\n"
                                      "grep -q def.facts && echo package tensorflow 2.20.0 && echo tpu 4\n")
    service.add_node("my-tpu", networkEndpoints=[{"ipAddress": f"10.0.0.{i}"} for i in range(2)])
    said = torus("doctor", "my-tpu", "--worker=all", "--format=json", rc=3).stdout
    found = {finding["id"]: finding for finding in json.loads(said)["findings"]}
    assert found["TD034"]["evidence"][0]["source"] == "worker 0"
    cause = found["TD046"]["cause"]
    assert "10.0.0.1 could not be looked at over ssh" in cause and "no route" in cause
    facts = torus("doctor", "my-tpu", "--show-facts").stdout.splitlines()
    assert facts == ["node my-tpu READY", "package tensorflow 2.20.0", "tpu 4"]


@pytest.mark.parametrize("state, said", [("STOPPED", "The TPU my-tpu is STOPPED, not READY."),
                                         (None, "There is no TPU my-tpu in zone us-central1-a of project")])
def test_the_doctor_of_a_node_that_is_not_there(torus, service, state, said):
    if state:
        service.add_node("my-tpu", state=state)
    assert said in torus("doctor", "my-tpu", rc=3).stdout


def test_ssh_to_a_stopped_node_says_what_to_do(torus, service):
    service.add_node("my-tpu", state="STOPPED")
    result = torus("tpu-vm", "ssh", "my-tpu", rc=1)
    assert "FAILED_PRECONDITION" in result.stderr
    assert "torus tpu-vm start my-tpu --zone=us-central1-a" in result.stderr


def test_ssh_dry_run_changes_nothing(torus, service, tmp_path):
    service.add_node("my-tpu")
    result = torus("tpu-vm", "ssh", "my-tpu", "--dry-run")
    assert result.stdout.startswith("ssh -t -i ")
    assert [r[0] for r in service.requests] == ["GET"]
    assert not (tmp_path / ".ssh").exists()


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
def test_scp(torus, service):
    service.add_node("my-tpu")
    up = torus("tpu-vm", "scp", "--recurse", "a", "b:c/d", "my-tpu:~/x", rc=2)
    assert "one side" in up.stderr  # "b:" is another TPU VM
    up = torus("tpu-vm", "scp", "--recurse", "a", "./b:c", "grace@my-tpu:~/x")
    assert up.stdout.startswith("scp -r -i ")
    assert up.stdout.endswith(" a ./b:c grace@127.0.0.2:~/x\n")
    down = torus("tpu-vm", "scp", "my-tpu:x", "my-tpu:y", ".")
    assert down.stdout.endswith(" ada@127.0.0.2:x ada@127.0.0.2:y .\n")


def test_version_and_help(torus):
    version = torus("--version").stdout
    assert version.startswith("torus 0.1.0 (commit ") and "engine XLA CPU" in version
    help_text = torus("--help").stdout
    assert "torus tpu-vm create my-first-tpu" in help_text and "--endpoint URL" in help_text
    assert "Usage: torus tpu-vm scp SRC... DEST [FLAGS]" in torus("tpu-vm", "scp", "--help").stdout
    for command in ("create", "list", "describe", "ssh", "scp", "start", "stop", "delete",
                    "update"):
        assert "Examples:" in torus("tpu-vm", command, "--help").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_parse(torus, shell, tmp_path):
    script = tmp_path / "script"
    script.write_text(torus("completion", shell).stdout)
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    subprocess.run([shell, "-n", str(script)], check=True)


@pytest.mark.parametrize("line, wants", [
    ("torus tpu-v", ["tpu-vm"]),
    ("torus tpu-vm cre", ["create"]),
    ("torus --endpoint URL tpu-vm cre", ["create"]),
    ("torus tpu-vm create x --zone us-central2", ["us-central2-b"]),
    ("torus tpu-vm create x --zone = us-central2", ["us-central2-b"]),
    ("torus tpu-vm create x --topo", ["--topology"]),
    ("torus completion --he", ["--help"]),
])
def test_bash_completes(torus, line, wants, tmp_path):
    script = tmp_path / "script"
    script.write_text(torus("completion", "bash").stdout)
    words = line.split()
    code = (f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
            "_torus; printf '%s\\n' \"${COMPREPLY[@]}\"")
    out = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == wants


def shell_env(torus, script, **env):
    """The environment of bash after `script`, in which $ENV and $UNSET print torus's lines."""
    code = script + "\nenv -0"
    torus_env = {k: v for k, v in os.environ.items() if k in ("PATH",)}
    out = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True,
                         env=torus_env | env).stdout
    return dict(pair.split("=", 1) for pair in out.split("\0") if "=" in pair)


def test_env_points_here_and_back(torus, tmp_path):
    home = {"HOME": str(tmp_path)}
    on = f'eval "$({TORUS} env --shell=bash --endpoint=http://127.0.0.1:1)"'
    off = f'eval "$({TORUS} env --shell=bash --unset)"'
    env = shell_env(torus, f"{on}\n{on}", **home, no_proxy="example.com",
                    GOOGLE_APPLICATION_CREDENTIALS="/real/key.json")
    assert env["CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"] == "http://127.0.0.1:1/"
    assert env["CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"] == "http://127.0.0.1:1/compute/v1/"
    assert env["CLOUDSDK_AUTH_DISABLE_CREDENTIALS"] == "true"
    assert env["no_proxy"] == "example.com,127.0.0.1,localhost"
    assert "GOOGLE_APPLICATION_CREDENTIALS" not in env
    assert "CLOUDSDK_COMPUTE_ZONE" not in env
    assert pathlib.Path(env["CLOUDSDK_CONFIG"]).is_dir()
    assert pathlib.Path(env["CLOUDSDK_CONFIG"]).is_relative_to(tmp_path)
    back = shell_env(torus, f"{on}\n{off}", **home, no_proxy="example.com")
    assert not any(k.startswith(("CLOUDSDK_", "TORUS_")) for k in back)
    assert back["no_proxy"] == "example.com" and "NO_PROXY" not in back


GCLOUD = shutil.which("gcloud")


def gcloud(service, home, command):
    script = (f'eval "$({TORUS} env --shell=bash --endpoint={service.url})"\n'
              f"timeout 100 gcloud {command} --quiet")
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "HOME": str(home)})


@pytest.mark.skipif(not GCLOUD, reason="gcloud is not installed")
@pytest.mark.parametrize("command", [
    "compute tpus create x --zone=us-central1-a --version=2.13.0",
    "compute instances list",
    "services enable tpu.googleapis.com --async",
    "projects describe torus",
    "logging read x",
    "scheduler jobs list --location=us-central1",
    "iam service-accounts list",
    "billing accounts list",
    "monitoring dashboards list",
    "storage ls",
])
def test_gcloud_reaches_nothing_but_us(service, tmp_path, command):
    result = gcloud(service, tmp_path, command)
    assert service.requests, result.stderr


@pytest.mark.skipif(not GCLOUD, reason="gcloud is not installed")
def test_gcloud_lists_our_nodes(service, tmp_path):
    service.add_node("my-tpu")
    result = gcloud(service, tmp_path, "compute tpus tpu-vm list --zone=us-central1-a")
    assert result.returncode == 0, result.stderr
    ours = subprocess.run([TORUS, "tpu-vm", "list", f"--endpoint={service.url}"],
                          capture_output=True, text=True, check=True)
    assert result.stdout.split() == ours.stdout.split()


@pytest.mark.skipif(not GCLOUD, reason="gcloud is not installed")
def test_env_knows_every_api_of_the_installed_gcloud(torus, tmp_path):
    source = pathlib.Path(GCLOUD).resolve().parents[1] / "lib/googlecloudsdk/core/properties.py"
    if not source.exists():
        pytest.skip("gcloud's sources are elsewhere")
    import re
    text = source.read_text()
    begin = text.index("class _SectionApiEndpointOverrides")
    section = text[begin:text.index("\nclass ", begin + 10)]
    apis = set(re.findall(r"self\._Add(?:Bool)?\(\s*'([a-z0-9_]+)'", section))
    lines = torus("env", "--shell=bash").stdout
    missing = {a for a in apis if f"OVERRIDES_{a.upper()}=" not in lines}
    assert missing == set()
