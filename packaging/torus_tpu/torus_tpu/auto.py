"""TORUS_AUTO_TPU=1: a TensorFlow program that forgot the strategy trains on the TPU, without a change to it.
With "required" it ends with NoTpu where there is none.

Nothing happens before the program needs a strategy: when it makes its first variable, or Keras asks
which strategy there is. Then the TPU's becomes the default one, as by experimental_set_strategy. A
program that connects to a TPU or makes a strategy of its own before that is left alone. One with a
training loop of its own cannot be helped from here, and is told so.
"""
import functools
import importlib.abc
import importlib.util
import os
import sys
import threading


def install():
    """Waits for `import tensorflow`, which need not come."""
    sys.meta_path.insert(0, _Waiting())


class _Waiting(importlib.abc.MetaPathFinder):
    """Runs our part when TensorFlow has been imported, and is gone then."""

    def find_spec(self, name, path, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _Default().arm()

            spec.loader.exec_module = exec_module
        return spec


class _Default:
    """Sets the TPU's strategy when one is first needed, once."""

    def __init__(self):
        self.settled = False
        self.lock = threading.RLock()

    def arm(self):
        from tensorflow.python.distribute import distribute_lib
        from tensorflow.python.eager import remote
        from tensorflow.python.ops import variables
        # What every has_strategy and get_strategy asks, by whichever name they were imported.
        self._before(distribute_lib, "_get_per_thread_mode", self.settle)
        self._before(variables.VariableMetaclass, "__call__", self.settle)
        self._before(remote, "connect_to_cluster", self.leave)
        strategy_init = distribute_lib.StrategyBase.__init__

        @functools.wraps(strategy_init)
        def init(strategy, *arguments, **keywords):
            if not type(strategy).__name__.startswith("_Default"):  # TensorFlow's own, which all have
                self.leave()
            strategy_init(strategy, *arguments, **keywords)

        distribute_lib.StrategyBase.__init__ = init

    @staticmethod
    def _before(place, name, first):
        original = getattr(place, name)

        @functools.wraps(original)
        def wrapped(*arguments, **keywords):
            first()
            return original(*arguments, **keywords)

        setattr(place, name, wrapped)

    def leave(self):
        """The program sees to it by itself."""
        self.settled = True

    def settle(self):
        if self.settled:
            return
        with self.lock:
            if self.settled:
                return
            self.settled = True
            import tensorflow as tf
            import torus_tpu
            strategy = torus_tpu.auto_strategy(required=os.environ.get("TORUS_AUTO_TPU") == "required")
            if torus_tpu.reason() is None:
                tf.distribute.experimental_set_strategy(strategy)
                self._before(tf.__internal__.distribute.interim, "maybe_merge_call", refuse_loops)


def refuse_loops():
    """An optimizer is about to apply gradients: outside of strategy.run it would fail, and say nothing of why."""
    import tensorflow as tf
    if tf.distribute.in_cross_replica_context():
        raise RuntimeError(
            "TORUS_AUTO_TPU: this program applies gradients in a loop of its own, which a TPU runs only inside "
            "strategy.run(step, args=...). Write the step so (strategy = torus_tpu.auto_strategy()), use model.fit, "
            "or run without --auto-tpu and TORUS_AUTO_TPU")
