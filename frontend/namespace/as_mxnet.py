"""Gives mxforge the name `mxnet`: `import mxnet as mx` and `mxnet.gluon.nn` are mxforge after this import.

The process then has one set of modules under both names, and the names of Python and NumPy that packages of MXNet's
time use (see old_names.py). As after importing MXNet, all its modules are in `sys.modules` (see late.py). Where real
MXNet is loaded already, it is refused.
"""

from __future__ import annotations

import sys

from .aliases import RenamedPackage, folder_aliases
from .old_names import restore_in_numpy, restore_in_python

_ROOT = __name__.partition(".")[0]


def _install() -> None:
    loaded = sys.modules.get("mxnet")
    if loaded is sys.modules[_ROOT]:
        return
    if loaded is not None:
        place = getattr(loaded, "__file__", None) or "an unknown place"
        raise ImportError(f"mxnet is imported already, from {place}: import mxforge.as_mxnet before it")
    restore_in_python()
    restore_in_numpy()
    sys.meta_path.insert(0, RenamedPackage("mxnet", _ROOT))
    sys.modules["mxnet"] = sys.modules[_ROOT]
    folder_aliases(_ROOT).register_modules("mxnet")


_install()
