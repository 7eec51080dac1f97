"""TPUStrategy and single cores: what in_process/strategy_cases.py does, case by case."""
CASES = "strategy_cases"
UNFINISHED = {"images_are_resized": "the custom calls ResizeBilinear and ResizeNearest have no body yet"}


def test_strategy(passes, case):
    passes(case)
