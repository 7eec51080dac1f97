"""Chips of a node are one process's at a time."""
import subprocess
import sys
import uuid

import pytest

COUNT = "import jax; print(jax.device_count())"


@pytest.fixture
def node(tmp_path):
    file = tmp_path / "slice"
    file.write_text(f"ACCELERATOR_TYPE: 'v2-8'\nTORUS_NODE_UID: 'test-{uuid.uuid4().hex}'\n")
    return str(file)


@pytest.fixture
def hold(environment):
    """hold(VARIABLE=value, ...) starts a process that has the chips until the test ends."""
    started = []

    def hold(**variables):
        process = subprocess.Popen([sys.executable, "-c", COUNT + "\ninput()"], text=True,
                                   env=environment | variables, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        started.append(process)
        assert int(process.stdout.readline()) > 0
        return process

    yield hold
    for process in started:
        process.kill()
        process.wait()


def test_a_second_process_is_told_who_has_the_chips(run, hold, node):
    holder = hold(TORUS_SLICE=node)
    error = run(COUNT, fails=True, TORUS_SLICE=node)
    assert f"The TPU is already in use by process with pid {holder.pid} (" in error
    assert "import jax" in error  # its command
    assert run(COUNT, TORUS_SLICE=node, ALLOW_MULTIPLE_LIBTPU_LOAD="1") == "8\n"
    holder.kill()
    holder.wait()
    assert run(COUNT, TORUS_SLICE=node) == "8\n"


def test_processes_with_chips_of_their_own_run_side_by_side(run, hold, node):
    hold(TORUS_SLICE=node, TPU_VISIBLE_CHIPS="0,1")
    others = run(COUNT, TORUS_SLICE=node, TPU_VISIBLE_CHIPS="2,3",
                 TPU_CHIPS_PER_PROCESS_BOUNDS="1,2,1")
    assert others == "4\n"
    assert "already in use" in run(COUNT, fails=True, TORUS_SLICE=node, TPU_VISIBLE_DEVICES="1,2")
