"""A pytest plugin: keeps one in N of the tests collected (TORUS_EVERY=N), by name.

By name and not by place, since which tests there are depends on the backend.
"""
import os
import zlib


def pytest_collection_modifyitems(config, items):
    every = int(os.environ.get("TORUS_EVERY", "1"))
    left_out = [test for test in items if zlib.crc32(test.name.encode()) % every]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [test for test in items if test not in set(left_out)]
