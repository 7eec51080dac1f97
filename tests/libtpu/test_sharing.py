"""Chips of a node are one process's at a time."""

COUNT = "import jax; print(jax.device_count())"


def test_a_second_process_is_told_who_has_the_chips(run, hold, node):
    holder = hold()
    error = run(COUNT, fails=True, TORUS_SLICE=node)
    assert f"The TPU is already in use by process with pid {holder.pid} (" in error
    assert "import jax" in error  # its command
    assert run(COUNT, TORUS_SLICE=node, ALLOW_MULTIPLE_LIBTPU_LOAD="1") == "8\n"
    holder.kill()
    holder.wait()
    assert run(COUNT, TORUS_SLICE=node) == "8\n"


def test_processes_with_chips_of_their_own_run_side_by_side(run, hold, node):
    hold(TPU_VISIBLE_CHIPS="0,1")
    others = run(COUNT, TORUS_SLICE=node, TPU_VISIBLE_CHIPS="2,3",
                 TPU_CHIPS_PER_PROCESS_BOUNDS="1,2,1")
    assert others == "4\n"
    assert "already in use" in run(COUNT, fails=True, TORUS_SLICE=node, TPU_VISIBLE_DEVICES="1,2")
