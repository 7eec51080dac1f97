"""Many rounds of training in one process: what in_process/rounds_cases.py does."""
import os

import pytest

CASES = "rounds_cases"

pytestmark = pytest.mark.skipif(not os.environ.get("TORUS_SOAK"), reason="200 rounds take minutes: TORUS_SOAK=1")


def test_rounds(passes, case):
    passes(case)
