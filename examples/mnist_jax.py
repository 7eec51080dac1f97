#!/usr/bin/env python3
"""Trains a small image classifier on every TPU chip it finds. Needs only jax and numpy, and
fashion_mnist.py beside it.

    python3 mnist_jax.py --epochs 1

The model is the one of many tutorials: a convolution, a dense layer and ten classes, on
Fashion-MNIST (28x28 pictures of clothes). Each batch is split over the chips; each chip works
on its part, and XLA adds the communication that keeps their weights equal.
"""
import argparse
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fashion_mnist import CLASSES, DATA_FOLDER, read_data


# ---- Model: plain functions on a dictionary of arrays.


def init_params(key):
    def dense(key, shape):  # random weights, scaled so that signals neither grow nor fade
        fan_in = np.prod(shape[:-1])
        return jax.random.normal(key, shape) * np.sqrt(2 / fan_in)

    conv, hidden, out = jax.random.split(key, 3)
    return {
        "conv": dense(conv, (3, 3, 1, 32)), "conv_bias": jnp.zeros(32),
        "hidden": dense(hidden, (13 * 13 * 32, 64)), "hidden_bias": jnp.zeros(64),
        "out": dense(out, (64, CLASSES)), "out_bias": jnp.zeros(CLASSES),
    }


def predict(params, images):
    """Logits, [n, 10]."""
    x = jax.lax.conv_general_dilated(images, params["conv"], window_strides=(1, 1),
                                     padding="VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = jax.nn.relu(x + params["conv_bias"])
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(x.shape[0], -1)
    x = jax.nn.relu(x @ params["hidden"] + params["hidden_bias"])
    return x @ params["out"] + params["out_bias"]


def loss_of(params, images, labels):
    log_probabilities = jax.nn.log_softmax(predict(params, images))
    return -jnp.take_along_axis(log_probabilities, labels[:, None], axis=1).mean()


# ---- Adam, the optimizer, in a few lines (Kingma and Ba, 2015).


def adam_init(params):
    return {
        "step": jnp.zeros((), jnp.int32),
        "mean": jax.tree.map(jnp.zeros_like, params),
        "square": jax.tree.map(jnp.zeros_like, params),
    }


def adam_update(params, state, grads, rate=1e-3, b1=0.9, b2=0.999, epsilon=1e-8):
    step = state["step"] + 1
    mean = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state["mean"], grads)
    square = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state["square"], grads)
    rate = rate * jnp.sqrt(1 - b2**step) / (1 - b1**step)
    params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + epsilon),
                          params, mean, square)
    return params, {"step": step, "mean": mean, "square": square}


# ---- Training


def train_step(params, state, images, labels):
    loss, grads = jax.value_and_grad(loss_of)(params, images, labels)
    params, state = adam_update(params, state, grads)
    return params, state, loss


def count_correct(params, images, labels):
    # Labels of -1 fill the last batch up and are never right.
    return (predict(params, images).argmax(axis=1) == labels).sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256, help="images a step, over all chips")
    parser.add_argument("--data", default=DATA_FOLDER, help="folder of the Fashion-MNIST files")
    parser.add_argument("--limit", type=int, help="train on this many images only")
    args = parser.parse_args()

    (images, labels), (test_images, test_labels) = read_data(args.data)
    images, test_images = images[..., None], test_images[..., None]  # one channel
    images, labels = images[: args.limit], labels[: args.limit]
    devices = jax.devices()
    if args.batch % len(devices) or not 0 < args.batch <= len(images):
        sys.exit(f"error: --batch {args.batch} must be a multiple of the {len(devices)} devices "
                 f"and at most the {len(images)} images.")
    print(f"{len(devices)} devices: {devices[0].device_kind}")
    for device in devices:
        print(f"  {device}")

    # The batch is split along its first axis; weights are copied to every chip.
    mesh = Mesh(np.array(devices), ("batch",))
    split = NamedSharding(mesh, PartitionSpec("batch"))
    everywhere = NamedSharding(mesh, PartitionSpec())
    params = jax.device_put(init_params(jax.random.key(0)), everywhere)
    state = jax.device_put(adam_init(params), everywhere)
    # Donated arguments let the new weights take the old ones' memory.
    step = jax.jit(train_step, donate_argnums=(0, 1))

    order = np.random.default_rng(0)
    for epoch in range(args.epochs):
        begin, trained, losses = time.perf_counter(), 0, []
        shuffled = order.permutation(len(images))
        for first in range(0, len(images) - args.batch + 1, args.batch):
            batch = shuffled[first : first + args.batch]
            on_chips = jax.device_put((images[batch], labels[batch]), split)
            params, state, loss = step(params, state, *on_chips)
            losses.append(float(loss))  # waits for the step, so that chips keep pace
            trained += args.batch
        seconds = time.perf_counter() - begin
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, {trained / seconds:.0f} images/s")

    print(f"test accuracy {accuracy(params, test_images, test_labels, args.batch, split):.4f}")


def accuracy(params, images, labels, batch, sharding):
    count = jax.jit(count_correct)
    correct = 0
    for first in range(0, len(images), batch):
        x, y = images[first : first + batch], labels[first : first + batch]
        fill = batch - len(x)
        x = np.pad(x, ((0, fill), (0, 0), (0, 0), (0, 0)))
        y = np.pad(y, (0, fill), constant_values=-1)
        correct += int(count(params, *jax.device_put((x, y), sharding)))
    return correct / len(images)


if __name__ == "__main__":
    main()
