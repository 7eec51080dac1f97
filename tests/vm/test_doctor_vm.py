"""`torus doctor NODE` on a real TPU VM: a healthy one, one that is stopped, and a program that leaves the TPU alone."""
import json
import shlex

import torus

# A framework, as far as the doctor looks at one: its library in the process, and no libtpu.so.
IDLE = """
import mmap, time
open("/tmp/libjax_common.so", "wb").write(b"x" * 4096)
file = open("/tmp/libjax_common.so", "rb")
library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
time.sleep(600)
"""


def findings(local, vm):
    done = local.torus("doctor", f"dev@{vm}", "--quiet", "--format=json", check=False)
    assert done.returncode in (0, 3), done.stderr
    return {finding["id"]: finding for finding in json.loads(done.stdout)["findings"]}


def test_a_healthy_vm_is_well_and_has_a_tpu(local, vm):
    assert findings(local, vm) == {}
    facts = local.torus("doctor", f"dev@{vm}", "--quiet", "--show-facts").stdout.splitlines()
    assert f"node {vm} READY" in facts and f"node {vm} health HEALTHY " in facts and "tpu 4" in facts


def test_a_program_that_leaves_the_tpu_alone_is_named_within_30_seconds(local, vm):
    pid = local.says(vm, f"nohup python3 -c {shlex.quote(IDLE)} >/dev/null 2>&1 & echo $!")
    found = torus.eventually(lambda: findings(local, vm).get("TD044"), seconds=30, what="the finding")
    assert f"Process {pid} (python3 -c" in found["cause"] and found["evidence"][0]["source"] == "worker 0"
    local.says(vm, f"kill {pid}")
    assert "TD044" not in findings(local, vm)


def health(local, vm):
    """(health, its description, the symptoms' details) as `describe` has them."""
    node = json.loads(local.vm("describe", vm, "--format=json").stdout)
    return (node["health"], node.get("healthDescription", ""),
            [symptom["details"] for symptom in node.get("symptoms", [])])


def test_the_worker_itself_finds_it_and_says_so_everywhere(local, vm):
    """Nobody asked: in describe, in the VM's log, and on the terminal where it was started. Whatever bytes the
    program's name has, they reach the service as text."""
    run = """python3 /tmp/idle.py "$(printf 'a\\377b')\""""
    start = (f"printf %s {shlex.quote(IDLE)} > /tmp/idle.py; script -qfc {shlex.quote(run)} /tmp/terminal "
             ">/dev/null 2>&1 </dev/null & sleep 2; pgrep -f '^python3 /tmp/idle' | head -1")
    pid = local.says(vm, start).strip()
    found = torus.eventually(lambda: (now := health(local, vm)) and now[2] and now, seconds=40, what="the symptom")
    said = f"TD044: Process {pid} (python3 /tmp/idle.py a\N{REPLACEMENT CHARACTER}b)"
    assert found[0] == "UNHEALTHY_TENSORFLOW" and found[1].startswith(said) and found[2][0].startswith(said)
    assert f"found TD044: Process {pid}" in local.says(vm, "cat /var/log/torus-doctor.log")
    assert local.says(vm, "stat -c %U /var/log/torus-doctor.log").strip() == "root"
    assert local.says(vm, "cat /tmp/terminal").count("[torus doctor] Process") == 1
    local.says(vm, f"kill {pid}")
    torus.eventually(lambda: health(local, vm) == ("HEALTHY", "", []), seconds=30, what="health")
    assert "over  TD044" in local.says(vm, "cat /var/log/torus-doctor.log")


def test_a_stopped_vm(local, vm):
    local.vm("stop", vm, "--quiet")
    assert f"The TPU {vm} is STOPPED" in findings(local, vm)["TD011"]["cause"]
    local.vm("start", vm, "--quiet")
    assert findings(local, vm) == {}
