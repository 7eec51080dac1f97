"""cases.py MODULE FILE [CASE…]: runs each function of the module whose name has no underscore in front
(or those named), and adds a line to the file when it has ended: its name, and "" or its traceback, as JSON.
"""
import importlib
import json
import sys
import time
import traceback
import types


def main(name, file, *chosen):
    module = importlib.import_module(name)
    for name, case in list(vars(module).items()):
        own = isinstance(case, types.FunctionType) and case.__module__ == module.__name__
        if not own or name.startswith("_") or chosen and name not in chosen:
            continue
        began = time.monotonic()
        try:
            case()
            failure = ""
        except BaseException:
            failure = traceback.format_exc()
        print(f"---- {name}: {time.monotonic() - began:.1f} s\n{failure}", flush=True)
        with open(file, "a") as out:
            print(json.dumps([name, failure]), file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
