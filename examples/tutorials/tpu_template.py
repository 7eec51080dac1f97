"""The template that most TensorFlow programs for TPUs begin with: find the TPU, connect, initialise it, make
a strategy; on any failure go on without one. Then a small network on MNIST.

    python tpu_template.py
"""
import tensorflow as tf

try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    strategy = tf.distribute.TPUStrategy(resolver)
    print("Running on TPU", resolver.master(), *tf.config.list_logical_devices("TPU"), sep="\n  ")
except Exception as error:
    print("Not on a TPU:", error)
    strategy = tf.distribute.get_strategy()
print("Using strategy:", "TPUStrategy" if isinstance(strategy, tf.distribute.TPUStrategy) else "the default")
print("Number of replicas:", strategy.num_replicas_in_sync)

(x_train, y_train), (x_test, y_test) = tf.keras.datasets.mnist.load_data()
batch = 32 * strategy.num_replicas_in_sync


def dataset(images, labels):
    images = images.reshape(-1, 784).astype("float32") / 255
    return tf.data.Dataset.from_tensor_slices((images, labels.astype("int32"))).cache()


train = dataset(x_train, y_train).shuffle(10000).batch(batch).prefetch(tf.data.AUTOTUNE)
test = dataset(x_test, y_test).batch(batch)

with strategy.scope():
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(128, activation="relu", input_shape=(784,)),
        tf.keras.layers.Dense(10),
    ])
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )

history = model.fit(train, epochs=5, validation_data=test)
print("val_accuracy:", history.history["val_accuracy"][-1])
