"""PyTorch/XLA loads the library, too. Optional: skipped where torch_xla (tried: 2.9.0) is missing.

Without SPMD, torch_xla compiles for all chips and runs on one; the engine then waits for the
others. So what uses one chip is tried on a slice of one.
"""
import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None,
                                reason="torch_xla is not installed")

ONE_CHIP = {"PJRT_DEVICE": "TPU", "TPU_ACCELERATOR_TYPE": "v5litepod-1"}
EIGHT_CORES = {"PJRT_DEVICE": "TPU", "TPU_ACCELERATOR_TYPE": "v2-8"}


def test_trains_on_a_chip(run):
    run("""
        import torch, torch_xla
        device = torch_xla.device()
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
        optimizer = torch.optim.Adam(model.parameters(), 0.02)
        x = torch.randn(64, 8, device=device)
        y = x.sum(1, keepdim=True)
        losses = []
        for _ in range(40):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            losses.append(loss.item())
        assert losses[-1] < losses[0] / 4, losses
        """, **ONE_CHIP)


def test_memory_and_out_of_memory(run):
    run("""
        import torch, torch_xla, torch_xla.core.xla_model as xm
        device = torch_xla.device()
        x = torch.rand(1024, 1024).to(device) + 1
        torch_xla.sync()
        info = xm.get_memory_info(device)
        assert info["bytes_used"] >= 4 * 2**20 and info["bytes_limit"] == int(15.75 * 2**30), info
        try:
            torch.zeros(5 << 30, device=device).cpu()
        except RuntimeError as error:
            assert "Ran out of memory on HBM" in str(error), error
        else:
            raise AssertionError("20 GiB fit into 15.75 GiB")
        assert torch.ones(3, device=device).sum().item() == 3
        """, **ONE_CHIP)


def test_spmd_over_all_chips(run):
    run("""
        import numpy as np, torch, torch_xla
        import torch_xla.distributed.spmd as xs, torch_xla.runtime as xr
        xr.use_spmd()
        count = xr.global_runtime_device_count()
        assert count == 8, count
        mesh = xs.Mesh(np.arange(count), (count,), ("x",))
        x = torch.ones(16, 4).to(torch_xla.device())
        xs.mark_sharding(x, mesh, ("x", None))
        assert (x @ x.T).sum().item() == 16 * 16 * 4
        """, **EIGHT_CORES)
