"""A convolutional network on MNIST, trained by Keras on a TPU.

    pip install tensorflow cloud-tpu-client
    python tpu_mnist.py
"""
import time

import tensorflow as tf
from cloud_tpu_client import Client  # noqa: F401: TensorFlow finds a TPU's address by it

try:
    tpu = tf.distribute.cluster_resolver.TPUClusterResolver()
    print("Running on TPU", tpu.master())
    tf.config.experimental_connect_to_cluster(tpu)
    tf.tpu.experimental.initialize_tpu_system(tpu)
    strategy = tf.distribute.TPUStrategy(tpu)
except ValueError as error:
    print("No TPU:", error)
    strategy = tf.distribute.get_strategy()
print("Number of replicas:", strategy.num_replicas_in_sync)

(x_train, y_train), (x_test, y_test) = tf.keras.datasets.mnist.load_data()
x_train = x_train[..., tf.newaxis] / 255.0
x_test = x_test[..., tf.newaxis] / 255.0

train = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(10000).batch(256)
test = tf.data.Dataset.from_tensor_slices((x_test, y_test)).batch(256)

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ])
    model.compile(
        optimizer=tf.keras.optimizers.Adam(),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

begin = time.time()
history = model.fit(train, epochs=5, validation_data=test)
print(f"Trained in {time.time() - begin:.1f} s")
print("val_accuracy:", history.history["val_accuracy"][-1])
