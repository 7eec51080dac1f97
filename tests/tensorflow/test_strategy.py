"""TPUStrategy and single cores: what in_process/strategy_cases.py does, case by case."""
CASES = "strategy_cases"


def test_strategy(passes, case):
    passes(case)
