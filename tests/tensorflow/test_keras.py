"""Keras under TPUStrategy: what in_process/keras_cases.py does, case by case."""
CASES = "keras_cases"
UNFINISHED = {}


def test_keras(passes, case):
    passes(case)
