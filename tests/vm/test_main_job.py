"""The main job: a plain user installs JAX as the tutorials type it and trains on the TPU VM."""
import re

import torus


def test_a_plain_user_trains_on_the_tpu(local, vm):
    local.ssh(vm, "pip install --upgrade pip", timeout=300)
    local.ssh(vm, 'pip install -q "jax[tpu]==0.10.2"', timeout=900)
    assert local.says(vm, "pip show libtpu | grep ^Name") == "Name: libtpu", "Google's came along"
    seen = local.says(vm, "python3 -c 'import jax; d = jax.devices(); "
                          "print(len(d), d[0].device_kind, d[0].platform, d[0].client.platform_version)'")
    assert seen.startswith("8 TPU v2 tpu") and "Torus" in seen, "and ours still wins"
    local.ssh(vm, "sudo apt-get -qq update && "
                  "sudo apt-get -qq install -y --no-install-recommends dataset-fashion-mnist", timeout=300)
    local.torus("tpu-vm", "scp", str(torus.ROOT / "examples/mnist_jax.py"),
                str(torus.ROOT / "examples/fashion_mnist.py"), f"dev@{vm}:", "--quiet")
    output = local.says(vm, "python3 mnist_jax.py")
    accuracy = float(re.search(r"accuracy\D*([01]\.\d+)", output).group(1))
    assert accuracy >= 0.85, output
