#!/usr/bin/env python3
"""Trains a small image classifier on TPU chips with PyTorch, saves it and loads it again.

    PJRT_DEVICE=TPU python3 mnist_torch.py           # PyTorch/XLA (torch_xla), on the first chip
    PJRT_DEVICE=TPU python3 mnist_torch.py --spmd    # ... each batch split over every chip
    python3 mnist_torch.py --compile                 # TorchTPU (torch_tpu), with torch.compile

Needs torch, numpy, one of the two, and fashion_mnist.py beside it. The model is the one of many
tutorials, as in mnist_jax.py: a convolution, a dense layer and ten classes, on Fashion-MNIST
(28x28 pictures of clothes).
"""
import argparse
import importlib.util
import sys
import tempfile
import time

import numpy as np
import torch

from fashion_mnist import CLASSES, DATA_FOLDER, read_data


# ---- The two ways from PyTorch to a TPU.


class PyTorchXla:
    """Operations are recorded; sync() compiles and runs what was recorded."""

    def __init__(self, spmd):
        import torch_xla
        import torch_xla.runtime as xr
        self.sync = torch_xla.sync
        self.spread = lambda tensor: tensor
        if spmd:
            import torch_xla.distributed.spmd as xs
            xr.use_spmd()
            chips = xr.global_runtime_device_count()
            mesh = xs.Mesh(np.arange(chips), (chips,), ("batch",))
            self.spread = lambda tensor: xs.mark_sharding(
                tensor, mesh, ("batch",) + (None,) * (tensor.dim() - 1)).global_tensor
        self.device = torch_xla.device()
        self.name = f"PyTorch/XLA {torch_xla.__version__} on {xr.global_runtime_device_count()} devices"


class TorchTpu:
    """Each operation runs as it is called, as on a GPU; so there is nothing to sync."""

    def __init__(self):
        import torch_tpu  # noqa: F401: it registers the device
        self.sync = lambda: None
        self.spread = lambda tensor: tensor
        self.device = torch.device("tpu")
        self.name = f"TorchTPU on {torch.accelerator.device_count()} devices"


def find_tpu(spmd):
    if importlib.util.find_spec("torch_xla"):
        return PyTorchXla(spmd)
    if importlib.util.find_spec("torch_tpu"):
        return TorchTpu()
    sys.exit("error: neither torch_xla nor torch_tpu is installed.\n"
             "Get one with: pip install torch==2.9.0 torch_xla==2.9.0, or: pip install torch_tpu")


# ---- Model and training


def make_model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(13 * 13 * 32, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES))


def train(model, tpu, images, labels, batch, order):
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    losses = []
    for picked in order[: len(order) // batch * batch].reshape(-1, batch):
        x = tpu.spread(images[picked].to(tpu.device))
        y = tpu.spread(labels[picked].to(tpu.device))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        tpu.sync()
        losses.append(loss.item())
    return np.mean(losses)


def accuracy(model, tpu, images, labels, batch):
    correct = 0
    with torch.no_grad():
        for x, y in zip(images.split(batch), labels.split(batch)):
            correct += (model(x.to(tpu.device)).argmax(1).cpu() == y).sum().item()
    return correct / len(images)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256, help="images a step, over all chips")
    parser.add_argument("--data", default=DATA_FOLDER, help="folder of the Fashion-MNIST files")
    parser.add_argument("--limit", type=int, help="train and test on this many images only")
    parser.add_argument("--spmd", action="store_true", help="PyTorch/XLA: split batches over chips")
    parser.add_argument("--compile", action="store_true", help="TorchTPU: use torch.compile")
    parser.add_argument("--save", help="file for the trained weights (default: one that is removed)")
    args = parser.parse_args()

    def tensors(images, labels):  # one channel; PyTorch's labels are 64-bit
        return (torch.from_numpy(images[: args.limit, None]),
                torch.from_numpy(labels[: args.limit]).long())

    training, testing = read_data(args.data)
    (images, labels), (test_images, test_labels) = tensors(*training), tensors(*testing)
    tpu = find_tpu(args.spmd)
    print(tpu.name)

    torch.manual_seed(0)
    model = make_model().to(tpu.device)
    step = torch.compile(model) if args.compile else model
    for epoch in range(args.epochs):
        begin = time.perf_counter()
        loss = train(step, tpu, images, labels, args.batch, torch.randperm(len(images)))
        print(f"epoch {epoch + 1}: loss {loss:.4f}, "
              f"{len(images) / (time.perf_counter() - begin):.0f} images/s")
    print(f"test accuracy {accuracy(model, tpu, test_images, test_labels, args.batch):.4f}")

    with tempfile.TemporaryDirectory() as folder:
        file = args.save or f"{folder}/model.pt"
        torch.save({name: weights.cpu() for name, weights in model.state_dict().items()}, file)
        loaded = make_model()
        loaded.load_state_dict(torch.load(file, weights_only=True))
    loaded = loaded.to(tpu.device)
    print(f"test accuracy {accuracy(loaded, tpu, test_images, test_labels, args.batch):.4f}, loaded")


if __name__ == "__main__":
    main()
