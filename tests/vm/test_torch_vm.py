"""PyTorch in a TPU VM, as a plain user types it: with PJRT_DEVICE=TPU for PyTorch/XLA and nothing for
TorchTPU. Both bring 6 GB, so a VM gets neither over ssh: its image has the packages of build/torch as
hard links, in a service of its own.
"""
import re
import shutil
import subprocess

import pytest

import torus
from tpu_vm import DATA, LocalService

PACKAGES = {name: torus.ROOT / f"build/torch/{name}/lib/python3.11/site-packages"
            for name in ("torch_xla", "torch_tpu")}
EXAMPLES = [str(torus.ROOT / "examples" / name) for name in ("mnist_torch.py", "fashion_mnist.py")]
EXAMPLE = "mnist_torch.py --limit 2048 --batch 64"

pytestmark = pytest.mark.skipif(
    not all((torus.ROOT / f"build/torch/{name}/.done").exists() for name in PACKAGES),
    reason="build/torch lacks PyTorch; scripts/torch.sh installs it")


class TorchService(LocalService):
    """A service whose base image has, besides what DATA's has, PyTorch's packages in /opt."""

    def start(self):
        torus.Service.start(self)
        images = self.folder / "data/images"
        shutil.rmtree(images, ignore_errors=True)
        images.mkdir(mode=0o700)
        for rootfs in (DATA / "data/images").glob("[0-9a-f]*/rootfs"):
            link(rootfs.parent, images / rootfs.parent.name)
            for name, packages in PACKAGES.items():
                link(packages, images / rootfs.parent.name / "rootfs/opt" / name)
        return self


def link(folder, to):
    done = subprocess.run(["cp", "-al", folder, to], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"the test data and build/torch are on different file systems: {done.stderr[:200]}")


@pytest.fixture(scope="module")
def torch_vm(local, tmp_path_factory):
    """says(command) runs a command in a v5litepod-4 that has PyTorch."""
    folder = DATA.parent / f"{DATA.name}-torch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    service = TorchService(tmp_path_factory.mktemp("home"), folder)
    node = "torch"
    try:
        service.start()
        service.vm("create", node, "--accelerator-type=v5litepod-4", "--version=v2-alpha-tpuv5-lite")
        service.ssh(node, "sudo apt-get -qq update && "
                          "sudo apt-get -qq install -y --no-install-recommends dataset-fashion-mnist")
        service.torus("tpu-vm", "scp", *EXAMPLES, f"dev@{node}:", "--quiet")
        yield lambda command, **options: service.ssh(node, command, **options)
        service.vm("delete", node, "--quiet")
    finally:
        if service.process is not None:
            service.delete_all()
            service.stop()
        shutil.rmtree(folder, ignore_errors=True)


def trained(done):
    """The example's device line; its weights were as good after a save and a load."""
    accuracies = re.findall(r"test accuracy ([\d.]+)", done.stdout)
    assert len(accuracies) == 2 and accuracies[0] == accuracies[1] and float(accuracies[0]) > 0.6, done.stdout
    return done.stdout.splitlines()[0]


def test_torch_xla_trains_saves_and_loads(torch_vm):
    done = torch_vm(f"PYTHONPATH=/opt/torch_xla PJRT_DEVICE=TPU python3 {EXAMPLE}")
    assert "on 4 devices" in trained(done)


def test_torch_tpu_trains_saves_and_loads(torch_vm):
    assert "TorchTPU on " in trained(torch_vm(f"PYTHONPATH=/opt/torch_tpu python3 {EXAMPLE}"))


LAUNCH = """
import os, torch, torch_xla, torch_xla.core.xla_model as xm, torch_xla.runtime as xr

def train(index):
    device = torch_xla.device()
    model = torch.nn.Linear(8, 1).to(device)
    xm.broadcast_master_param(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    x = torch.randn(64, 8).to(device)
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
    xm.save(model.state_dict(), "/tmp/launched.pt")
    assert len(xm.rendezvous("saved", b"me")) == 4
    assert torch.equal(torch.load("/tmp/launched.pt")["weight"], model.weight.cpu())
    os.write(1, f"trained {index} of {xr.world_size()} in {xr.process_count()} processes\\n".encode())

if __name__ == "__main__":
    torch_xla.launch(train)
"""


def test_torch_xla_launches_a_process_a_chip(torch_vm):
    torch_vm(f"cat >launch.py <<'END'\n{LAUNCH}\nEND")
    done = torch_vm("PYTHONPATH=/opt/torch_xla PJRT_DEVICE=TPU python3 launch.py")
    assert sorted(re.findall(r"trained (\d) of 4 in 4 processes", done.stdout)) == list("0123"), done.stdout
