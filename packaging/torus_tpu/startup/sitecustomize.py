"""Python runs this at its start where this folder is on its path, as `torus run` puts it: `import torus_tpu`
works then, and TORUS_AUTO_TPU. A sitecustomize that this one hides is run first."""
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_hidden = importlib.machinery.PathFinder.find_spec(
    "sitecustomize", [folder for folder in sys.path if os.path.abspath(folder) != _here])
if _hidden and _hidden.loader:
    _module = importlib.util.module_from_spec(_hidden)
    sys.modules["sitecustomize"] = _module
    _hidden.loader.exec_module(_module)

sys.path.append(os.path.dirname(_here))
if os.environ.get("TORUS_AUTO_TPU", "0") not in ("", "0"):
    from torus_tpu import auto
    auto.install()
