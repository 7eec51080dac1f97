"""Keras under TPUStrategy: training, evaluation and prediction against native CPU, and what is saved."""
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

from tpu import CORES, assert_close, strategy

RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((256, 16)).astype("float32")
Y = (X @ RANDOM.standard_normal((16, 3))).argmax(1).astype("int32")
IMAGES = RANDOM.standard_normal((64, 12, 12, 1)).astype("float32")
LABELS = RANDOM.randint(0, 10, 64)
ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _mlp(optimizer="sgd", **options):
    model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(32, activation="relu"),
                              keras.layers.Dense(3)])
    model.compile(_optimizer(optimizer), ENTROPY, metrics=["accuracy"], **options)
    return model


def _optimizer(name):
    return name if not callable(name) else name()


def _on_tpu(make, *arguments, **options):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        return make(*arguments, **options)


def _on_cpu(make, *arguments, **options):
    """The same model and weights, in native operations on the CPU."""
    keras.utils.set_random_seed(1)
    with tf.device("/CPU:0"):
        return make(*arguments, **options, jit_compile=False)


def _trained(model, where, x=X, y=Y, batch=64, epochs=2):
    with where:
        return model.fit(x, y, batch_size=batch, epochs=epochs, shuffle=False, verbose=0).history


def _both_train_alike(make, *arguments, tolerance=1e-3, **data):
    on_tpu, on_cpu = _on_tpu(make, *arguments), _on_cpu(make, *arguments)
    on_cpu.set_weights(on_tpu.get_weights())
    ours = _trained(on_tpu, strategy.scope(), **data)
    expected = _trained(on_cpu, tf.device("/CPU:0"), **data)
    assert_close(ours["loss"], expected["loss"], tolerance)
    assert_close(on_tpu.get_weights(), on_cpu.get_weights(), tolerance)
    return on_tpu, on_cpu


def it_learns():
    model = _on_tpu(_mlp, lambda: keras.optimizers.Adam(0.03), steps_per_execution=4)
    data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(256).batch(64, drop_remainder=True).prefetch(2)
    history = model.fit(data, epochs=8, verbose=0).history
    assert history["accuracy"][-1] > 0.85 and history["loss"][-1] < history["loss"][0], history


def sgd_is_that_of_the_cpu():
    _both_train_alike(_mlp)


def adam_is_that_of_the_cpu():
    _both_train_alike(_mlp, "adam")


def accumulated_gradients_are_those_of_the_cpu():
    _both_train_alike(_mlp, lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))


def _uneven_batches(size, batch):
    # Keras takes the mean on each replica, so training weighs examples by their replica's share.
    # What it says of given weights does not depend on that.
    model, on_cpu = _on_tpu(_mlp), _on_cpu(_mlp)
    losses = _trained(model, strategy.scope(), X[:size], Y[:size], batch)["loss"]
    assert losses[1] < losses[0]
    on_cpu.set_weights(model.get_weights())
    with tf.device("/CPU:0"):
        expected = (on_cpu.evaluate(X[:size], Y[:size], batch_size=batch, verbose=0),
                    on_cpu.predict(X[:size], batch_size=batch, verbose=0))
    assert_close((model.evaluate(X[:size], Y[:size], batch_size=batch, verbose=0),
                  model.predict(X[:size], batch_size=batch, verbose=0)), expected, 1e-3)


def a_partial_last_batch():
    _uneven_batches(100, 64)


def a_batch_that_replicas_do_not_divide():
    _uneven_batches(30, 10)


def several_steps_an_execution():
    one, many = _on_tpu(_mlp), _on_tpu(_mlp, steps_per_execution=4)
    many.set_weights(one.get_weights())
    histories = [_trained(model, strategy.scope()) for model in (one, many)]
    assert_close(*[history["loss"] for history in histories])
    assert_close(one.get_weights(), many.get_weights())
    assert_close(one.evaluate(X, Y, verbose=0), many.evaluate(X, Y, verbose=0))
    assert_close(one.predict(X, verbose=0), many.predict(X, verbose=0))


def _cnn(batch_norm, dropout, **options):
    layers = keras.layers
    model = keras.Sequential([
        layers.Input((12, 12, 1)), layers.Conv2D(4, 3, activation="relu"),
        layers.BatchNormalization(synchronized=batch_norm == "synchronized") if batch_norm else layers.Identity(),
        layers.MaxPooling2D(), layers.Flatten(), layers.Dropout(dropout), layers.Dense(10)])
    model.compile(keras.optimizers.SGD(0.05), ENTROPY, metrics=["accuracy"], **options)
    return model


def a_cnn_is_that_of_the_cpu():
    _both_train_alike(_cnn, None, 0., x=IMAGES, y=LABELS, batch=32)


def batch_normalization():
    model = _on_tpu(_cnn, "each replica", 0.)
    history = _trained(model, strategy.scope(), IMAGES, LABELS, batch=32, epochs=3)
    assert history["loss"][-1] < history["loss"][0]
    moving_mean, moving_variance = model.layers[1].moving_mean.numpy(), model.layers[1].moving_variance.numpy()
    assert np.abs(moving_mean).max() > 0 and (moving_variance != 1).all()
    on_cpu = _on_cpu(_cnn, "each replica", 0.)
    for each in (model, on_cpu):  # each replica had its own averages: the first one's for all
        each.set_weights(model.get_weights())
    with tf.device("/CPU:0"):
        expected = on_cpu.predict(IMAGES, verbose=0)
    assert_close(model.predict(IMAGES, verbose=0), expected, 1e-3)


def batch_normalization_synchronized():
    _both_train_alike(_cnn, "synchronized", 0., x=IMAGES, y=LABELS, batch=32, tolerance=5e-3)


def dropout():
    model = _on_tpu(_cnn, None, 0.5)
    _trained(model, strategy.scope(), IMAGES, LABELS, batch=32)
    assert_close(model.predict(IMAGES, verbose=0), model.predict(IMAGES, verbose=0))
    with strategy.scope():
        layer = keras.layers.Dropout(0.25)

    @tf.function
    def drop():
        return strategy.run(lambda: layer(tf.ones((4000,)), training=True))

    draws = [each.numpy() for each in strategy.experimental_local_results(drop())]
    assert all(set(np.unique(draw.round(4)).tolist()) == {0, np.float32(1.3333)} for draw in draws)
    assert all(0.2 < (draw == 0).mean() < 0.3 for draw in draws)


def mixed_bfloat16():
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = _on_tpu(_mlp)
        assert model.layers[0].compute_dtype == "bfloat16" and model.layers[0].kernel.dtype == "float32"
        mixed = _trained(model, strategy.scope(), epochs=3)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    whole = _trained(_on_tpu(_mlp), strategy.scope(), epochs=3)
    assert_close(mixed["loss"], whole["loss"], 0.03)


def _with_embedding(**options):
    model = keras.Sequential([keras.layers.Input((4,), dtype="int32"), keras.layers.Embedding(50, 8),
                              keras.layers.LSTM(6), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), ENTROPY, **options)
    return model


def embedding_and_lstm_are_those_of_the_cpu():
    words = RANDOM.randint(0, 50, (64, 4)).astype("int32")
    _both_train_alike(_with_embedding, x=words, y=LABELS % 2, batch=32)


class _Penalized(keras.Model):
    """A step of the user's own."""

    def __init__(self):
        super().__init__(name="penalized")
        self.dense = keras.layers.Dense(3)

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            loss += 0.01 * tf.reduce_sum(tf.square(self.dense.kernel)) / CORES
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"penalized": loss}


def a_train_step_of_ones_own():
    with strategy.scope():
        model = _Penalized()
        model.compile(keras.optimizers.Adam(0.05), ENTROPY)
    losses = model.fit(X, Y, batch_size=64, epochs=4, verbose=0).history["penalized"]
    assert losses[-1] < losses[0], losses


def callbacks_of_fit():
    folder = pathlib.Path(tempfile.mkdtemp())
    model = _on_tpu(_mlp, "adam")
    history = model.fit(X, Y, batch_size=64, epochs=4, verbose=0, validation_split=0.25, callbacks=[
        keras.callbacks.ModelCheckpoint(folder / "best.keras", save_best_only=True),
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (epoch + 1)),
        keras.callbacks.TensorBoard(folder / "logs"),
        keras.callbacks.EarlyStopping(patience=10, restore_best_weights=True)]).history
    assert (folder / "best.keras").exists() and list(folder.glob("logs/*/*tfevents*"))
    assert_close(history["learning_rate"], [0.01, 0.005, 0.01 / 3, 0.0025])
    assert len(history["val_loss"]) == 4


def input_pipelines():
    folder = pathlib.Path(tempfile.mkdtemp())
    for part in range(2):
        with tf.io.TFRecordWriter(str(folder / f"{part}.tfrecord")) as out:
            for x, y in zip(X[part::2], Y[part::2]):
                features = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                            "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[y]))}
                out.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

    def parse(record):
        example = tf.io.parse_single_example(record, {"x": tf.io.FixedLenFeature((16,), tf.float32),
                                                      "y": tf.io.FixedLenFeature((), tf.int64)})
        return example["x"], example["y"]

    files = tf.data.Dataset.from_tensor_slices([str(file) for file in sorted(folder.iterdir())])
    data = files.interleave(tf.data.TFRecordDataset, cycle_length=2).map(parse, tf.data.AUTOTUNE).cache()
    data = data.batch(64).prefetch(tf.data.AUTOTUNE)
    model = _on_tpu(_mlp)
    assert_close(model.evaluate(data, verbose=0), model.evaluate(X, Y, batch_size=64, verbose=0))
    model.fit(data, epochs=2, verbose=0)


def saved_and_loaded():
    folder = pathlib.Path(tempfile.mkdtemp())
    model = _on_tpu(_mlp, "adam")
    _trained(model, strategy.scope(), epochs=1)
    expected = model.predict(X, verbose=0)
    model.save(folder / "model.keras")
    model.save_weights(folder / "some.weights.h5")
    with strategy.scope():
        loaded = keras.models.load_model(folder / "model.keras")
    assert_close(loaded.predict(X, verbose=0), expected)
    assert_close(loaded.optimizer.variables[-1].numpy(), model.optimizer.variables[-1].numpy())
    _trained(loaded, strategy.scope(), epochs=1)  # it goes on
    with tf.device("/CPU:0"):
        elsewhere = keras.models.load_model(folder / "model.keras")
        assert_close(elsewhere.predict(X, verbose=0), expected, 1e-3)
    other = _on_tpu(_mlp)
    other.load_weights(folder / "some.weights.h5")
    assert_close(other.predict(X, verbose=0), expected)


def checkpoints():
    folder = pathlib.Path(tempfile.mkdtemp())
    model = _on_tpu(_mlp, "adam")
    _trained(model, strategy.scope(), epochs=1)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), str(folder), max_to_keep=2)
    saved = model.get_weights()
    path = manager.save()
    _trained(model, strategy.scope(), epochs=1)
    assert np.abs(model.get_weights()[0] - saved[0]).max() > 0
    tf.train.Checkpoint(model=model).restore(path).assert_existing_objects_matched()
    assert_close(model.get_weights(), saved, 0)


def a_saved_model():
    folder = tempfile.mkdtemp()
    model = _on_tpu(_mlp)
    model.export(folder, verbose=False)
    expected = model.predict(X[:8], verbose=0)
    with tf.device("/CPU:0"):
        loaded = tf.saved_model.load(folder)
        assert_close(loaded.serve(tf.constant(X[:8])).numpy(), expected, 1e-3)
