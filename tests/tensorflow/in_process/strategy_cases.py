"""TPUStrategy without Keras, and operations on a core: values against native CPU."""
import numpy as np
import tensorflow as tf

from tpu import (CORES, assert_close, in_function, on_cpu, on_each, raises, resolver, strategy,
                 topology, values_of)

RANDOM = np.random.RandomState(0)


def _normal(*shape):
    return tf.constant(RANDOM.standard_normal(shape), tf.float32)


def devices_and_topology_are_the_slice():
    assert [each.name for each in tf.config.list_logical_devices("TPU")] == [
        f"/device:TPU:{core}" for core in range(CORES)]
    assert strategy.num_replicas_in_sync == CORES and resolver.num_accelerators() == {"TPU": CORES}
    assert topology.mesh_shape.tolist() == [2, 2, 1, 2]
    assert (topology.num_tasks, topology.num_tpus_per_task) == (1, CORES)
    places = topology.device_coordinates.reshape(-1, 4).tolist()
    assert places[:3] == [[0, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert len(set(map(tuple, places))) == CORES


def device_assignment_takes_every_core():
    assignment = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=CORES)
    assert assignment.num_replicas == CORES and assignment.num_cores_per_replica == 1
    ordinals = {assignment.tpu_ordinal(replica=replica) for replica in range(CORES)}
    assert ordinals == set(range(CORES))


def run_reads_and_writes_variables():
    with strategy.scope():
        weights = tf.Variable(tf.ones((8, 8)) * 2)
        count = tf.Variable(0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

    def step():
        count.assign_add(1)
        return tf.reduce_sum(tf.ones((8, 8)) @ weights)

    for _ in range(3):
        assert on_each(step) == [1024] * CORES
    assert count.numpy() == 3
    weights.assign(tf.ones((8, 8)))
    assert on_each(step) == [512] * CORES


def collectives():
    def step():
        replica = tf.distribute.get_replica_context()
        mine = tf.cast(replica.replica_id_in_sync_group, tf.float32)
        return (replica.all_reduce("SUM", mine + 1), replica.all_reduce("MEAN", mine),
                replica.all_gather(tf.reshape(mine, (1, 1)), axis=0),
                replica.all_reduce("SUM", [mine, tf.ones((3,))]))

    total, mean, gathered, several = on_each(step)
    assert total == [36] * CORES and mean == [3.5] * CORES
    assert all(each.ravel().tolist() == list(range(CORES)) for each in gathered)
    assert several[0] == [28] * CORES and several[1][7].tolist() == [8, 8, 8]


def collectives_between_some():
    def step():
        mine = tf.distribute.get_replica_context().replica_id_in_sync_group
        mine = tf.reshape(tf.cast(mine, tf.float32), (1,))
        pairs = [[0, 1, 2, 3], [4, 5, 6, 7]]
        ring = [[core, (core + 1) % CORES] for core in range(CORES)]
        return (tf.raw_ops.CrossReplicaSum(input=mine, group_assignment=pairs),
                tf.raw_ops.CollectivePermute(input=mine, source_target_pairs=ring),
                tf.raw_ops.AllToAll(input=tf.repeat(mine, CORES), group_assignment=[list(range(CORES))],
                                    concat_dimension=0, split_dimension=0, split_count=CORES))

    halves, shifted, exchanged = on_each(step)
    assert np.ravel(halves).tolist() == [6] * 4 + [22] * 4
    assert np.ravel(shifted).tolist() == [7, 0, 1, 2, 3, 4, 5, 6]
    assert all(each.tolist() == list(range(CORES)) for each in exchanged)


def reduce_and_gather_on_the_host():
    def step():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.reshape(tf.cast(replica, tf.float32), (1,))

    values = in_function(step)()
    assert strategy.reduce("SUM", values, axis=None).numpy().tolist() == [28]
    assert strategy.reduce("MEAN", values, axis=0).numpy() == 3.5
    assert strategy.gather(values, axis=0).numpy().tolist() == list(range(CORES))


def _of_two_cores(**options):
    assignment = tf.tpu.experimental.DeviceAssignment.build(topology, computation_shape=[1, 1, 1, 2],
                                                            num_replicas=CORES // 2)
    return tf.distribute.TPUStrategy(resolver, experimental_device_assignment=assignment, **options)


def model_parallelism():
    split = _of_two_cores()

    def step():
        x = split.experimental_split_to_logical_devices(tf.ones((8, 8)), [2, 1])
        return tf.reduce_sum(x @ x)

    assert values_of(in_function(step, split)()) == [512] * (CORES // 2)


def variables_and_work_on_each_core_of_a_replica():
    split = _of_two_cores()
    with split.scope():
        v = tf.Variable(2.)
        with split.extended.experimental_logical_device(1):
            w = tf.Variable(3.)

    def step(x):
        replica = tf.distribute.get_replica_context()
        with replica.experimental_logical_device(0):
            y = v * x
        with replica.experimental_logical_device(1):
            w.assign_add(1.)
            z = w * y
        return y, z

    y, z = values_of(in_function(step, split)(5.))
    assert (y, z) == ([10] * (CORES // 2), [40] * (CORES // 2)), (y, z)
    assert w.numpy() == 4 and v.numpy() == 2


def spmd_over_the_cores_of_a_replica():
    split = _of_two_cores(experimental_spmd_xla_partitioning=True)
    x = tf.reshape(tf.range(32, dtype=tf.float32), (8, 4))
    with split.scope():
        w = tf.Variable(tf.ones((4, 8)))

    def step(x):
        # The product lies in parts, and TensorFlow wants it whole.
        part = split.experimental_split_to_logical_devices(x, [2, 1])
        return part @ w, w.assign_add(tf.ones((4, 8)))

    product, new = values_of(in_function(step, split)(x))
    for each in range(CORES // 2):
        np.testing.assert_allclose(product[each], x @ tf.ones((4, 8)))
        np.testing.assert_allclose(new[each], 2 * np.ones((4, 8)))
    np.testing.assert_allclose(w.numpy(), 2 * np.ones((4, 8)))


def results_beside_variables_whose_core_is_named():
    with strategy.scope():
        w = tf.Variable([1.], aggregation=tf.VariableAggregation.MEAN)
    average = tf.train.ExponentialMovingAverage(0.8)

    def step():
        average.apply([w])
        w.assign_sub([0.5])
        average.apply([w])
        return average.average(w)

    assert_close([float(each[0]) for each in on_each(step)], [0.9] * CORES)


def a_result_of_dynamic_size_given_twice():
    """The last batch: each replica's size is another, and known only when the step runs."""
    def step(x):
        flat = tf.reshape(tf.tile(x, [1, tf.shape(x)[0]]), [-1])
        return flat, tf.reduce_sum(flat), flat

    count = 3 * CORES - 5
    data = tf.data.Dataset.range(count).map(lambda i: tf.reshape(i, [1])).batch(3 * CORES)
    batch = next(iter(strategy.experimental_distribute_dataset(data)))
    first, total, second = on_each(step, batch)
    for replica in range(CORES):
        rows = np.arange(3 * replica, min(3 * replica + 3, count))
        expected = np.tile(rows[:, None], [1, len(rows)]).reshape(-1)
        assert first[replica].tolist() == second[replica].tolist() == expected.tolist()
        assert total[replica] == expected.sum()


def control_flow():
    def step(n):
        i, total = tf.constant(0), tf.constant(0.)
        while i < n:
            total += tf.cast(i, tf.float32)
            i += 1
        branch = tf.switch_case(n % 3, [lambda: total, lambda: -total, lambda: total * 2])
        return tf.cond(total > 5., lambda: total, lambda: -total), branch

    step = tf.autograph.experimental.do_not_convert(tf.function(step))
    for n, expected in ((6, (15, 15)), (2, (-1, 2)), (4, (6, -6))):
        found = on_each(step, tf.constant(n))
        assert [each[0] for each in found] == list(expected), (n, found)


def loop_over_steps_in_a_function():
    with strategy.scope():
        total = tf.Variable(0., aggregation=tf.VariableAggregation.SUM,
                            synchronization=tf.VariableSynchronization.ON_READ)

    def step(x):
        total.assign_add(tf.reduce_sum(x))

    @tf.function
    def steps(iterator):
        for _ in tf.range(4):
            strategy.run(step, args=(next(iterator),))

    data = tf.data.Dataset.range(64).map(lambda x: tf.cast(x, tf.float32)).batch(16, drop_remainder=True)
    steps(iter(strategy.experimental_distribute_dataset(data)))
    assert total.read_value().numpy() == sum(range(64))


def custom_training_is_that_of_the_cpu():
    x, y, start = _normal(64, 5), _normal(64, 1), _normal(5, 1)

    def trained(scope, steps):
        with scope:
            weights = tf.Variable(start)
            optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
            optimizer.build([weights])

        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(tf.square(x @ weights - y)[:, 0], global_batch_size=32)
            optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
            return loss

        return steps(step), weights.numpy()

    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32, drop_remainder=True).repeat(3)

    def on_tpu(step):
        run = in_function(step)
        return [strategy.reduce("SUM", run(*batch), axis=None).numpy()
                for batch in strategy.experimental_distribute_dataset(data)]

    with tf.device("/CPU:0"):
        expected = trained(tf.distribute.get_strategy().scope(),
                           lambda step: [step(*batch).numpy() for batch in data])
    assert_close(trained(strategy.scope(), on_tpu), expected)


def gradients_accumulate_over_steps():
    with strategy.scope():
        gathered = tf.Variable(tf.zeros((4,)), aggregation=tf.VariableAggregation.SUM,
                               synchronization=tf.VariableSynchronization.ON_READ)
        weights = tf.Variable(tf.ones((4,)))

    def gather(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * x)
        gathered.assign_add(tape.gradient(loss, weights))

    def apply():
        replica = tf.distribute.get_replica_context()
        weights.assign_sub(0.1 * replica.all_reduce("SUM", gathered.read_value()))
        gathered.assign(tf.zeros((4,)))

    for factor in (1., 2., 3.):
        on_each(lambda x: [gather(x), x][1], tf.ones((4,)) * factor)
    on_each(lambda: [apply(), tf.constant(0)][1])
    assert_close(weights.numpy(), np.full(4, 1 - 0.1 * 6 * CORES))


def stateless_random_is_that_of_the_cpu():
    def draw():
        return (tf.random.stateless_uniform((50,), seed=(1, 2), alg="philox"),
                tf.random.stateless_normal((50,), seed=(3, 4), alg="philox"))

    uniform, normal = on_each(draw)
    assert_close((uniform[0], normal[5]), on_cpu(draw))


def stateful_random_differs():
    with strategy.scope():
        generator = tf.random.Generator.from_seed(7)

    def step():
        return tf.random.uniform((100,)), tf.random.uniform((100,)), generator.normal((100,))

    first, second = on_each(step), on_each(step)
    draws = [first[0][0], first[1][0], second[0][0], second[1][0]]
    assert len({draw.tobytes() for draw in draws}) == 4
    assert all(0 <= draw.min() and draw.max() < 1 and 0.3 < draw.mean() < 0.7 for draw in draws)
    assert len({draw.tobytes() for draw in first[2] + second[2]}) == 2 * CORES


def eager_operations_run_on_their_core():
    for core in (0, 7):
        with tf.device(f"/TPU:{core}"):
            a = tf.random.uniform((4, 4))
            b = a @ tf.linalg.eye(4)
        assert a.device.endswith(f"TPU:{core}") and b.device.endswith(f"TPU:{core}")
        assert_close(b.numpy(), a.numpy())


def tensors_go_from_core_to_core():
    with tf.device("/TPU:0"):
        a = tf.range(10.) + 1
    with tf.device("/TPU:3"):
        b = tf.identity(a) * 2
    with tf.device("/CPU:0"):
        c = tf.identity(b)
    assert b.device.endswith("TPU:3") and c.numpy().tolist() == [2. * (i + 1) for i in range(10)]


def variables_live_on_a_core():
    with tf.device("/TPU:2"):
        v = tf.Variable([1., 2.])
        v.assign_add([1., 1.])
        v[1].assign(9.)
        assert v.numpy().tolist() == [2, 9] and v.device.endswith("TPU:2")


def jit_compile():
    @tf.function(jit_compile=True)
    def f(x):
        return tf.nn.softmax(x * 2.), tf.reduce_sum(x), tf.argsort(x)

    x = _normal(33)
    with tf.device("/TPU:1"):
        found = [each.numpy() for each in f(x)]
        again = [each.numpy() for each in f(x + 1)]
    assert_close(found, on_cpu(lambda: list(f.python_function(x))))
    assert_close(again, on_cpu(lambda: list(f.python_function(x + 1))))


def types_keep_their_values():
    for kind in (tf.float32, tf.bfloat16, tf.float16, tf.float64, tf.int8, tf.uint8, tf.int16, tf.int32,
                 tf.uint32, tf.int64, tf.uint64, tf.bool, tf.complex64):
        with tf.device("/CPU:0"):
            x = tf.cast(tf.constant([[0, 1, 2], [3, 5, 7]]), kind)
        with tf.device("/TPU:0"):
            there = tf.transpose(tf.identity(x))
        assert there.dtype == kind and (there.numpy() == x.numpy().T).all(), (kind, there)


def operations_are_those_of_the_cpu():
    x, image, filters = _normal(6, 6), _normal(2, 9, 9, 3), _normal(3, 3, 3, 4)
    positive = x @ tf.transpose(x) + 6 * tf.eye(6)
    operations = {
        "matmul": lambda: x @ x,
        "einsum": lambda: tf.einsum("ij,jk,kl->il", x, x, x),
        "convolution": lambda: tf.nn.conv2d(image, filters, 1, "SAME"),
        "depthwise": lambda: tf.nn.depthwise_conv2d(image, filters, [1, 1, 1, 1], "VALID"),
        "max pool": lambda: tf.nn.max_pool2d(image, 2, 2, "VALID"),
        "mean pool": lambda: tf.nn.avg_pool2d(image, 3, 2, "SAME"),
        "softmax": lambda: tf.nn.log_softmax(x),
        "gather": lambda: tf.gather(x, [5, 0, 3]),
        "scatter": lambda: tf.tensor_scatter_nd_add(x, [[0], [5]], tf.ones((2, 6))),
        "segments": lambda: tf.math.unsorted_segment_sum(x, [0, 1, 0, 2, 1, 0], 3),
        "sort": lambda: tf.sort(x),
        "top k": lambda: tf.math.top_k(x, 3).values,
        "cumsum": lambda: tf.cumsum(x, axis=1, reverse=True),
        "one hot": lambda: tf.one_hot([1, 5, 2], 6),
        "strided slice": lambda: x[1::2, ::-1],
        "pad": lambda: tf.pad(x, [[1, 2], [0, 1]], "REFLECT"),
        "erf": lambda: tf.math.erf(x) + tf.math.lgamma(tf.abs(x) + 1),
        "cholesky": lambda: tf.linalg.cholesky(positive),
        "solve": lambda: tf.linalg.triangular_solve(tf.linalg.cholesky(positive), x),
        "inverse": lambda: tf.linalg.inv(positive),
        "integers": lambda: tf.cast(x * 100, tf.int32) // 7 % 5,
        "where": lambda: tf.where(x > 0, x, tf.zeros_like(x)),
    }

    def every():
        return [operation() for operation in operations.values()]

    expected = on_cpu(every)
    for name, found, wanted in zip(operations, on_each(every), expected):
        np.testing.assert_allclose(found[0], wanted, rtol=2e-3, atol=2e-3, err_msg=name)
        np.testing.assert_array_equal(found[0], found[7], err_msg=name)


def images_are_resized():
    image = _normal(2, 9, 7, 3)
    bytes_ = tf.cast(tf.random.stateless_uniform((2, 9, 7, 3), (1, 2), 0, 256, tf.int32), tf.uint8)
    flags = {"half_pixel_centers": [True, False, False], "align_corners": [False, True, False]}

    def resize():
        resized = []
        for half, align in zip(*flags.values()):
            for size in (18, 14), (4, 5), (9, 20), (1, 1):
                for op in tf.raw_ops.ResizeBilinear, tf.raw_ops.ResizeNearestNeighbor:
                    resized += [op(images=each, size=size, half_pixel_centers=half, align_corners=align)
                                for each in (image, bytes_)]
        return resized + [tf.image.resize(image, (18, 14)), tf.image.resize(image, (4, 5), "nearest")]

    assert_close([each[0] for each in on_each(resize)], on_cpu(resize), 1e-6)


def gradients_of_resizing_are_those_of_the_cpu():
    image = _normal(2, 6, 5, 3)

    def gradients():
        found = []
        for method in "bilinear", "nearest":
            for size in (12, 10), (4, 3), (30, 25), (6, 9):
                with tf.GradientTape() as tape:
                    tape.watch(image)
                    loss = tf.reduce_sum(tf.square(tf.image.resize(image, size, method)))
                found.append(tape.gradient(loss, image))
        return found

    assert_close([each[0] for each in on_each(gradients)], on_cpu(gradients), 1e-4)


def gradients_are_those_of_the_cpu():
    image, filters, weights = _normal(4, 8, 8, 3), _normal(3, 3, 3, 4), _normal(64, 2)

    def gradients():
        with tf.GradientTape() as tape:
            tape.watch((filters, weights))
            hidden = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(image, filters, 1, "SAME")), 2, 2, "SAME")
            loss = tf.reduce_mean(tf.square(tf.reshape(hidden, (4, 64)) @ weights))
        return tape.gradient(loss, (filters, weights))

    found = on_each(gradients)
    assert_close([each[0] for each in found], list(on_cpu(gradients)), 1e-3)


def sizes_known_only_when_running():
    def step(x):
        chosen = tf.boolean_mask(x, x > 3.)
        return tf.reduce_sum(chosen), tf.size(chosen)

    total, size = on_each(step, tf.range(10.))
    assert total == [39] * CORES and size == [6] * CORES


def results_of_unknown_size():
    with tf.device("/TPU:0"):
        where = tf.function(lambda x: tf.where(x > 3.), jit_compile=True)(tf.range(8.))
    assert where.numpy().ravel().tolist() == [4, 5, 6, 7]


def programs_in_flight():
    with strategy.scope():
        a, b = tf.Variable(0.), tf.Variable(0.)

    def add(to):
        return in_function(lambda: to.assign_add(
            tf.distribute.get_replica_context().all_reduce("SUM", 1.)))

    one, two, three = add(a), add(b), in_function(lambda: tf.reduce_sum(tf.ones((64,))))
    for _ in range(50):
        one(), two(), three()
    assert (a.numpy(), b.numpy()) == (50 * CORES, 50 * CORES)


def an_operation_that_a_tpu_lacks():
    with raises(tf.errors.InvalidArgumentError, "Detected unsupported operations"):
        on_each(lambda: tf.strings.as_string(tf.ones(())))
    assert on_each(lambda: tf.ones(())) == [1] * CORES


def a_shape_that_is_no_constant():
    with raises(tf.errors.InvalidArgumentError, "compile-time constant"):
        on_each(lambda n: tf.random.uniform(tf.stack([n, n])), tf.constant(3))
    assert on_each(lambda: tf.ones(())) == [1] * CORES


def temporaries_larger_than_hbm():
    def step():
        x = tf.zeros((70000, 70000))
        return tf.reduce_sum(x @ x)

    with raises(tf.errors.ResourceExhaustedError, "Ran out of memory on HBM", "exceeds available HBM (7.48G)"):
        on_each(step)
    assert on_each(lambda: tf.ones(())) == [1] * CORES


def an_argument_larger_than_hbm():
    with tf.device("/TPU:0"):
        with raises(tf.errors.ResourceExhaustedError, "HBM"):
            tf.zeros((50000, 50000)) + 1
        assert (tf.ones((3,)) + 1).numpy().tolist() == [2] * 3


def hbm_is_free_again():
    for _ in range(10):  # a gibibyte each, of 7.5
        with tf.device("/TPU:4"):
            big = tf.fill((16384, 16384), 1.)
            del big


def initialize_twice():
    tf.tpu.experimental.initialize_tpu_system(resolver)
    assert len(tf.config.list_logical_devices("TPU")) == CORES
    again = tf.distribute.TPUStrategy(resolver)
    with again.scope():
        v = tf.Variable(3.)
    assert values_of(in_function(lambda: v * 2, again)()) == [6] * CORES


def shutdown_and_initialize():
    tf.tpu.experimental.shutdown_tpu_system(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    again = tf.distribute.TPUStrategy(resolver)
    assert values_of(in_function(lambda: tf.ones(()), again)()) == [1] * CORES
