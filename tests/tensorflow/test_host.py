"""Outside compilation under TPUStrategy: what in_process/host_cases.py does, case by case."""
CASES = "host_cases"


def test_host(passes, case):
    passes(case)
