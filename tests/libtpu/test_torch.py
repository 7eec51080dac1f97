"""PyTorch/XLA loads the library, too. Optional: skipped where torch_xla (tried: 2.9.0) is missing."""
import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None,
                                reason="torch_xla is not installed")

XLA = {"PJRT_DEVICE": "TPU", "TPU_ACCELERATOR_TYPE": "v2-8"}


def test_trains_on_a_chip(run):
    run("""
        import torch, torch_xla
        device = torch_xla.device()
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
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
        """, **XLA)


def test_memory_and_out_of_memory(run):
    run("""
        import torch, torch_xla, torch_xla.core.xla_model as xm
        device = torch_xla.device()
        x = torch.ones(1024, 1024, device=device)
        torch_xla.sync()
        info = xm.get_memory_info(device)
        assert info["bytes_used"] >= 4 * 2**20 and info["bytes_limit"] == int(7.48 * 2**30), info
        try:
            torch.zeros(3 << 30, device=device).cpu()
        except RuntimeError as error:
            assert "RESOURCE_EXHAUSTED" in str(error) and "HBM" in str(error), error
        else:
            raise AssertionError("12 GiB fit into 7.48 GiB")
        assert torch.ones(3, device=device).sum().item() == 3
        """, **XLA)


def test_spmd_over_all_chips(run):
    run("""
        import numpy as np, torch, torch_xla, torch_xla.runtime as xr, torch_xla.distributed.spmd as xs
        xr.use_spmd()
        count = xr.global_runtime_device_count()
        assert count == 8, count
        mesh = xs.Mesh(np.arange(count), (count,), ("x",))
        x = torch.ones(16, 4).to(torch_xla.device())
        xs.mark_sharding(x, mesh, ("x", None))
        assert (x @ x.T).sum().item() == 16 * 16 * 4
        """, **XLA)
