"""Many rounds in one process: no hang, and memory that stays."""
import os

import numpy as np
import tensorflow as tf

import tpu

ROUNDS = 200


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fit_evaluate_and_predict():
    random_numbers = np.random.default_rng(0)
    x = random_numbers.random((256, 32), np.float32)
    y = random_numbers.integers(0, 10, 256)
    with tpu.strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
        model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"], steps_per_execution=4)
    at_first = None
    for i in range(ROUNDS):
        model.fit(x, y, batch_size=64, verbose=0)
        loss, _ = model.evaluate(x, y, batch_size=64, verbose=0)
        assert np.isfinite(loss) and model.predict(x, batch_size=64, verbose=0).shape == (256, 10)
        if i == ROUNDS // 3:  # arenas and caches have their size by then
            at_first = _resident()
    grown = _resident() - at_first
    print(f"{ROUNDS} rounds; the last two thirds grew the process by {grown >> 10} KiB")
    assert grown < 64 << 20, grown
