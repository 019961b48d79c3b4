"""Runs at the start of an interpreter for `mxforge exec`: restores removed names of Python, then runs the sitecustomize
module that this file hides."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)


def _restore() -> None:
    try:
        from mxforge.frontend.namespace.old_names import restore_in_python
    except ImportError:  # another interpreter, started by the program, without mxforge
        return
    restore_in_python()


def _run_hidden_sitecustomize() -> None:
    """Run the sitecustomize module that this one hides, if there is one."""
    others = [path for path in sys.path if path != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_restore()
_run_hidden_sitecustomize()
