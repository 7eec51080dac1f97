"""Logging in to a TPU VM: what a user finds there."""
import re
import subprocess

import torus


def test_a_command_runs_as_the_user_and_its_status_comes_back(local, vm):
    assert local.says(vm, "whoami") == "dev"
    assert local.says(vm, "sudo whoami") == "root"
    assert local.ssh(vm, "exit 7", check=False).returncode == 7


def test_the_host_name_is_the_nodes(local, vm):
    assert re.fullmatch(r"t1v-n-[0-9a-f]{8}-w-0", local.says(vm, "hostname"))


def test_files_are_copied_both_ways(local, vm, tmp_path):
    (tmp_path / "there.txt").write_text("round trip\n")
    local.torus("tpu-vm", "scp", str(tmp_path / "there.txt"), f"dev@{vm}:", "--quiet")
    local.torus("tpu-vm", "scp", f"dev@{vm}:there.txt", str(tmp_path / "back.txt"), "--quiet")
    assert (tmp_path / "back.txt").read_text() == "round trip\n"


def test_libtpu_is_found_in_every_kind_of_shell(local, vm):
    library = "/opt/torus/libtpu.so"
    for command in ("printenv TPU_LIBRARY_PATH", "bash -lc 'printenv TPU_LIBRARY_PATH'",
                    "sudo printenv TPU_LIBRARY_PATH", "sudo -i printenv TPU_LIBRARY_PATH"):
        assert local.says(vm, command) == library, command
    assert local.says(vm, "readlink -f /usr/lib/libtpu.so") == library
    assert "ACCELERATOR_TYPE: 'v2-8'" in local.says(vm, "cat /run/torus/slice")


def test_the_metadata_server_answers_as_upstreams(local, vm):
    def get(path, flags="-H 'Metadata-Flavor: Google'"):
        return local.says(vm, f"curl -sS {flags} http://metadata.google.internal/computeMetadata/v1/{path}")
    assert get("project/project-id") == torus.PROJECT
    assert get("instance/zone").endswith(f"/zones/{torus.ZONE}")
    assert get("instance/attributes/accelerator-type") == "v2-8"
    assert get("instance/attributes/agent-worker-number") == "0"
    assert "ACCELERATOR_TYPE: 'v2-8'" in get("instance/attributes/tpu-env")
    assert "access_token" in get("instance/service-accounts/default/token")
    assert "403" in get("project/project-id", "-i"), "the header is required"
    assert "404" in get("instance/attributes/no-such", "-i -H 'Metadata-Flavor: Google'")


def public_key(folder, name):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name], check=True)
    return (folder / f"{name}.pub").read_text().strip()


def plain_ssh(local, node, user, key):
    """OpenSSH alone, with nothing of ours."""
    address = local.node(node)["networkEndpoints"][0]["accessConfig"]["externalIp"]
    return subprocess.run(
        ["ssh", "-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
         "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", f"{user}@{address}", "whoami"],
        capture_output=True, text=True, timeout=60)


def test_keys_come_and_go_with_the_metadata(local, vm, tmp_path):
    ann = public_key(tmp_path, "ann")
    node = f"/v2/{torus.PARENT}/nodes/{vm}?updateMask=metadata"
    before = local.node(vm)["metadata"]
    keys = before["ssh-keys"] + f"\nann:{ann}\nnot a key line\n1bad:{ann}"
    local.wait(local.ok("PATCH", node, {"metadata": before | {"ssh-keys": keys}}))
    assert plain_ssh(local, vm, "ann", tmp_path / "ann").stdout.strip() == "ann"
    local.wait(local.ok("PATCH", node, {"metadata": before}))
    refused = plain_ssh(local, vm, "ann", tmp_path / "ann")
    assert refused.returncode == 255 and "Permission denied" in refused.stderr


def test_keys_of_the_project_hold_too(local, vm, tmp_path):
    bob = public_key(tmp_path, "bob")
    project = f"/compute/v1/projects/{torus.PROJECT}"
    metadata = local.ok("GET", project)["commonInstanceMetadata"]
    local.ok("POST", project + "/setCommonInstanceMetadata",
             {"fingerprint": metadata["fingerprint"], "items": [{"key": "ssh-keys", "value": f"bob:{bob}"}]})
    torus.eventually(lambda: plain_ssh(local, vm, "bob", tmp_path / "bob").stdout.strip() == "bob")


def test_a_startup_script_runs_as_root(local):
    local.vm("create", "scripted", "--accelerator-type=v2-8", "--version=tpu-ubuntu2204-base",
             "--metadata=startup-script=id -un > /startup-ran")
    torus.eventually(lambda: local.ssh("scripted", "cat /startup-ran", check=False).stdout.strip() == "root")
    local.vm("delete", "scripted", "--quiet")
