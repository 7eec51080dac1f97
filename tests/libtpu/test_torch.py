"""PyTorch/XLA (torch_xla) and TorchTPU (torch_tpu) on the library. Each test is skipped where its
package is missing: CI has neither, as torch brings 6 GB. scripts/torch.sh installs both and runs this.
"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import uuid

import pytest

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/mnist_torch.py"
SHORT = ["--limit", "2048", "--batch", "64"]
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
WITH_CHIPS = str(pathlib.Path(__file__).with_name("with_chips.sh"))

xla = pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None,
                         reason="torch_xla is not installed; scripts/torch.sh does")
tpu = pytest.mark.skipif(importlib.util.find_spec("torch_tpu") is None,
                         reason="torch_tpu is not installed; scripts/torch.sh does")
data = pytest.mark.skipif(not DATA.exists(),
                          reason="apt package dataset-fashion-mnist is not installed")
chips = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None,
                           reason="needs root, to show chips on the PCI bus")

# A slice of eight devices is the rule; what PyTorch/XLA compiles then depends on their number.
XLA = {"PJRT_DEVICE": "TPU", "TPU_ACCELERATOR_TYPE": "v2-8"}
# What PyTorch/XLA's launch reads, outside a TPU VM: no metadata server.
V5E_4 = {"PJRT_DEVICE": "TPU", "TPU_ACCELERATOR_TYPE": "v5litepod-4", "TPU_SKIP_MDS_QUERY": "1",
         "TPU_WORKER_ID": "0", "TPU_HOST_BOUNDS": "1,1,1", "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1"}
V5E, V2, TPU7X = "0x0063", "0x0027", "0x0076"  # their PCI devices
TORCH_TPU = {"TPU_ACCELERATOR_TYPE": "v5litepod-1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
TIMEOUT = 900  # torch takes its time to load


@pytest.fixture
def run_torch(run):
    return lambda code, **variables: run(code, timeout=TIMEOUT, **variables)


@pytest.fixture
def on_chips(environment, tmp_path):
    """on_chips(count, command or code, VARIABLE=value, ...) runs where chips are on the PCI bus."""

    def on_chips(count, program, device=V5E, **variables):
        if isinstance(program, str):
            file = tmp_path / "program.py"
            file.write_text(textwrap.dedent(program))
            program = [str(file)]
        return subprocess.run([WITH_CHIPS, device, str(count), sys.executable, *program],
                              env=environment | variables, capture_output=True, text=True,
                              timeout=TIMEOUT)

    return on_chips


def check_example(done):
    """The example trained, and its saved weights are as good as they were."""
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    trained, loaded = re.findall(r"test accuracy ([\d.]+)", done.stdout)
    assert float(trained) > 0.6 and trained == loaded, done.stdout
    return done.stdout


def train_example(environment, *arguments):
    return check_example(subprocess.run(
        [sys.executable, str(EXAMPLE), *SHORT, *arguments], env=environment | XLA,
        capture_output=True, text=True, timeout=TIMEOUT))


# ---- PyTorch/XLA


@xla
@data
def test_trains_saves_and_loads_on_a_chip_of_eight(environment):
    assert "on 8 devices" in train_example(environment)


@xla
@data
def test_trains_saves_and_loads_with_spmd(environment):
    assert "on 8 devices" in train_example(environment, "--spmd")


@xla
def test_says_what_devices_there_are(run_torch):
    run_torch("""
        import torch, torch_xla, torch_xla.core.xla_model as xm, torch_xla.runtime as xr
        assert xr.device_type() == "TPU" and xm.xla_device_hw(torch_xla.device()) == "TPU"
        assert xr.global_device_count() == xr.addressable_device_count() == 8
        assert xr.global_runtime_device_count() == 8 and xr.process_count() == 1
        assert xr.world_size() == 1 and xr.global_ordinal() == 0
        assert xm.get_xla_supported_devices() == [f"xla:{i}" for i in range(8)]
        last = xr.global_runtime_device_attributes()[7]
        assert last["name"] == "TPU:7" and last["coords"] == [1, 1, 0], last
        assert last["core_on_chip"] == 1 and last["num_cores"] == 1, last
        assert torch.ones(3, device="xla:7").sum().item() == 3
        x = torch.arange(4.0, device="xla:0")
        assert torch.equal(xm.all_reduce("sum", x).cpu(), torch.arange(4.0))  # of one process
        assert torch.equal((x.to("xla:3") + 1).cpu(), torch.arange(4.0) + 1)
        """, **XLA)


@xla
def test_memory_and_out_of_memory(run_torch):
    run_torch("""
        import torch, torch_xla, torch_xla.core.xla_model as xm
        device = torch_xla.device()
        x = torch.rand(1024, 1024).to(device) + 1
        torch_xla.sync(wait=True)
        info = xm.get_memory_info(device)
        assert info["bytes_used"] >= 4 * 2**20 and info["bytes_limit"] == int(7.48 * 2**30), info
        try:
            torch.zeros(5 << 30, device=device).cpu()
        except (RuntimeError, ValueError) as error:
            assert "Ran out of memory on HBM" in str(error), error
        else:
            raise AssertionError("20 GiB fit into 7.48 GiB")
        assert torch.ones(3, device=device).sum().item() == 3
        """, **XLA)


@xla
def test_spmd_saves_and_loads_a_sharded_checkpoint(run_torch, tmp_path):
    run_torch("""
        import os, numpy as np, torch, torch_xla
        import torch.distributed as dist, torch.distributed.checkpoint as checkpoint
        import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr
        import torch_xla.distributed.xla_backend
        from torch_xla.experimental.distributed_checkpoint import SPMDLoadPlanner, SPMDSavePlanner
        xr.use_spmd()
        mesh = xs.Mesh(np.arange(8), (4, 2), ("data", "model"))

        def make():
            model = torch.nn.Linear(16, 8).to(torch_xla.device())
            xs.mark_sharding(model.weight, mesh, ("data", "model"))
            return model

        model = make()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.randn(32, 16).to(torch_xla.device())
        xs.mark_sharding(x, mesh, ("data", None))
        losses = []
        for _ in range(10):
            optimizer.zero_grad()
            loss = (model(x) - x[:, :8]).square().mean()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            losses.append(loss.item())
        assert losses[-1] < losses[0] / 1.5, losses

        dist.init_process_group("gloo", init_method=f"file://{os.environ['FOLDER']}/group",
                                world_size=1, rank=0)
        folder = os.environ["FOLDER"] + "/checkpoint"
        state = {"model": model.state_dict()}
        checkpoint.save(state, storage_writer=checkpoint.FileSystemWriter(folder),
                        planner=SPMDSavePlanner())
        other = make()
        state = {"model": other.state_dict()}
        checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(folder),
                        planner=SPMDLoadPlanner())
        other.load_state_dict(state["model"])
        assert torch.equal(other.weight.cpu(), model.weight.cpu())
        """, FOLDER=str(tmp_path), **XLA)


# What a process or thread of a launch does: trains with the others, saves, and tries each collective.
LAUNCH = """
    import os, sys, torch, torch_xla, torch_xla.core.xla_model as xm, torch_xla.runtime as xr

    def check_collectives(index, n, device):
        x = torch.full((n, 2), float(index), device=device)
        assert xm.all_gather(x[:1]).cpu()[:, 0].tolist() == list(range(n))
        assert xm.all_gather(x[:1], pin_layout=False).cpu()[:, 0].tolist() == list(range(n))
        assert xm.reduce_scatter("sum", x, 1.0, 0, n).cpu().tolist() == [[sum(range(n))] * 2]
        assert xm.collective_permute(x, [[i, (i + 1) % n] for i in range(n)])[0, 0].item() == (index - 1) % n
        mine = torch.arange(float(n), device=device) + 100 * index
        assert xm.all_to_all(mine, 0, 0, n).cpu().tolist() == [100. * i + index for i in range(n)]
        halves = [list(range(n // 2)), list(range(n // 2, n))]
        largest = xm.all_reduce("max", torch.tensor(index, device=device), groups=halves).item()
        assert largest == halves[index >= n // 2][-1]

    def train(index, file):
        n = xr.world_size()
        assert xr.global_ordinal() == index
        torch.manual_seed(index)  # each its own data
        device = torch_xla.device()
        model = torch.nn.Linear(8, 1).to(device)
        torch.nn.init.ones_(model.weight)
        torch.nn.init.zeros_(model.bias)
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        x = torch.randn(64, 8).to(device)
        for _ in range(5):
            optimizer.zero_grad()
            (model(x) - 2 * x.sum(1, keepdim=True)).square().mean().backward()
            xm.optimizer_step(optimizer)  # adds the gradients of all
            torch_xla.sync()
        weights = xm.all_gather(model.weight).cpu()
        assert weights.shape == (n, 8) and torch.equal(weights, weights[:1].expand(n, 8)), weights
        assert (weights - 1).abs().min() > 0.01
        check_collectives(index, n, device)
        told = xm.rendezvous("told", f"from {index}".encode())
        assert told == [f"from {i}".encode() for i in range(n)], told
        xm.save(model.state_dict(), file)  # the first one does
        xm.rendezvous("saved")
        assert torch.equal(torch.load(file)["weight"], model.weight.cpu())
        os.write(1, f"trained {index} of {n}, process {xr.process_index()} of {xr.process_count()}\\n".encode())

    if __name__ == "__main__":
        torch_xla.launch(train, args=(sys.argv[1],))
    """


def launch(on_chips, tmp_path, program, *arguments, device=V5E, count=4, **variables):
    file = tmp_path / "launch.py"
    file.write_text(textwrap.dedent(program))
    return on_chips(count, [str(file), *map(str, arguments)], device=device, **variables)


def check_launch(done, n, processes):
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    each = re.findall(rf"trained (\d) of {n}, process (\d) of {processes}\n", done.stdout)
    assert sorted(each) == [(str(i), str(i * processes // n)) for i in range(n)], done.stdout


@xla
@chips
def test_launch_runs_a_process_a_chip(on_chips, tmp_path):
    done = launch(on_chips, tmp_path, LAUNCH, tmp_path / "model.pt", **V5E_4)
    check_launch(done, n=4, processes=4)


@xla
@chips
def test_launch_runs_a_thread_a_core_of_a_chip(on_chips, tmp_path):
    done = launch(on_chips, tmp_path, LAUNCH, tmp_path / "model.pt", device=V2,
                  **V5E_4 | {"TPU_ACCELERATOR_TYPE": "v2-8"})
    check_launch(done, n=8, processes=4)


@xla
@chips
def test_launch_runs_threads_in_one_process_where_it_is_told_to(on_chips, tmp_path):
    done = launch(on_chips, tmp_path, LAUNCH, tmp_path / "model.pt", TPU_PROCESS_BOUNDS="1,1,1",
                  TPU_CHIPS_PER_PROCESS_BOUNDS="2,2,1", TPU_VISIBLE_CHIPS="0,1,2,3", **V5E_4)
    check_launch(done, n=4, processes=1)


@xla
@chips
def test_launch_runs_a_process_a_core_where_each_is_a_function_on_the_bus(on_chips, tmp_path):
    node = tmp_path / "slice"  # whose chips are locked: two processes share one
    node.write_text(f"ACCELERATOR_TYPE: 'tpu7x-2'\nTORUS_NODE_UID: 'test-{uuid.uuid4().hex}'\n")
    done = launch(on_chips, tmp_path, LAUNCH, tmp_path / "model.pt", device=TPU7X, count=2,
                  **V5E_4 | {"TPU_ACCELERATOR_TYPE": "tpu7x-2", "TPU_CHIPS_PER_HOST_BOUNDS": "1,1,1",
                             "TORUS_SLICE": str(node)})
    check_launch(done, n=2, processes=2)


# torch.distributed on the same processes, as its tutorials have it. Not with gradient_as_bucket_view:
# torch_xla 2.9 then leaves the sum over replicas out of the gradients that it computes.
DISTRIBUTED = """
    import os, torch, torch.distributed as dist, torch_xla, torch_xla.runtime as xr
    import torch_xla.distributed.xla_backend
    from torch.nn.parallel import DistributedDataParallel

    def train(index):
        dist.init_process_group("xla", init_method="xla://")
        torch.manual_seed(index)
        device = torch_xla.device()
        model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
        optimizer = torch.optim.SGD(model.parameters(), 0.05)
        x = torch.randn(64, 8).to(device)
        for _ in range(3):
            optimizer.zero_grad()
            (model(x) - 2 * x.sum(1, keepdim=True)).square().mean().backward()
            optimizer.step()
            torch_xla.sync()
        weights = [torch.empty_like(model.module.weight) for _ in range(dist.get_world_size())]
        dist.all_gather(weights, model.module.weight.detach())
        assert all(torch.equal(w.cpu(), weights[0].cpu()) for w in weights)
        os.write(1, f"trained {index} of {dist.get_world_size()}, process {dist.get_rank()} of {xr.process_count()}\\n".encode())

    if __name__ == "__main__":
        torch_xla.launch(train)
    """


@xla
@chips
def test_ddp_trains_on_all_chips(on_chips, tmp_path):
    check_launch(launch(on_chips, tmp_path, DISTRIBUTED, **V5E_4), n=4, processes=4)


FAILS = """
    import os, sys, torch_xla, torch_xla.core.xla_model as xm

    def train(index):
        torch_xla.device()
        xm.rendezvous("begun")
        if index == 0:
            raise ValueError("the first one fails")
        xm.rendezvous("never")

    if __name__ == "__main__":
        torch_xla.launch(train)
    """


@xla
@chips
def test_a_launch_whose_first_process_raises_ends(on_chips, tmp_path):
    """DP-13: the others wait for it, are told for whom, and for no longer than the limit."""
    done = launch(on_chips, tmp_path, FAILS, TORUS_COLLECTIVE_TIMEOUT="25", **V5E_4)
    assert done.returncode == 1
    assert "ValueError: the first one fails" in done.stderr, done.stderr
    assert "TPU devices [1, 2, 3] have waited 20 s in a collective for devices [0]" in done.stderr, done.stderr


@xla
@chips
def test_spmd_over_several_processes_is_told_to_be_one(on_chips, tmp_path):
    done = launch(on_chips, tmp_path, """
        import numpy as np, torch, torch_xla, torch_xla.runtime as xr, torch_xla.distributed.spmd as xs

        def train(index):
            xr.use_spmd()
            n = xr.global_runtime_device_count()
            x = torch.ones(8, 8).to(torch_xla.device())
            xs.mark_sharding(x, xs.Mesh(np.arange(n), (n, 1)), (0, 1))
            print((x + 1).cpu())

        if __name__ == "__main__":
            torch_xla.launch(train)
        """, **V5E_4)
    assert done.returncode == 1
    assert "run one process without torch_xla.launch" in done.stderr, done.stderr


@xla
def test_a_second_process_does_not_compile(run_torch, tmp_path):
    """All programs are kept, then loaded: no file is new, and none is written again."""
    code = """
        import torch, torch_xla, torch_xla.debug.metrics as metrics
        torch.manual_seed(0)
        device = torch_xla.device()
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(device)
        optimizer = torch.optim.Adam(model.parameters())
        x = torch.randn(8, 16).to(device)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
        print(loss.item(), metrics.metric_data("CompileTime")[0])
        """
    cache = tmp_path / "programs"

    def files():
        return {file.name: file.stat().st_ino for file in cache.glob("*.program")}

    first = run_torch(code, TORUS_PROGRAM_CACHE=str(cache), **XLA)
    kept = files()
    assert len(kept) == int(first.split()[1]) > 1, (first, kept)
    assert run_torch(code, TORUS_PROGRAM_CACHE=str(cache), **XLA) == first
    assert files() == kept


# ---- TorchTPU


@tpu
@chips
@data
@pytest.mark.parametrize("mode", [[], ["--compile"]], ids=["eager", "compiled"])
def test_torch_tpu_trains_saves_and_loads(on_chips, mode):
    done = on_chips(1, [str(EXAMPLE), *SHORT, *mode], **TORCH_TPU)
    assert "TorchTPU on 1 devices" in check_example(done)


@tpu
@chips
def test_torch_tpu_knows_its_device(on_chips):
    done = on_chips(1, """
        import torch
        assert torch.accelerator.device_count() == 1
        a = torch.arange(64.0, device="tpu").reshape(8, 8)
        assert torch.equal((a @ a).cpu(), a.cpu() @ a.cpu())
        assert torch.linalg.inv(2 * torch.eye(4, device="tpu")).cpu()[0, 0] == 0.5
        with torch.tpu.compiler.custom_compiler_options({"xla_tpu_enable_deduplicated_calls": "ENABLED"}):
            assert (a + 1).cpu()[0, 0] == 1
        try:
            with torch.tpu.compiler.custom_compiler_options({"xla_tpu_no_such_option": "1"}):
                (a - 17).cpu()
        except RuntimeError as error:
            assert "o such compile option: 'xla_tpu_no_such_option'" in str(error), error
        else:
            raise AssertionError("an option that there is not was taken")
        """, **TORCH_TPU)
    assert done.returncode == 0, done.stderr
