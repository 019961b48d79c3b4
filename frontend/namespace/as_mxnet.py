"""Makes mxforge importable as `mxnet`: after this import, `import mxnet as mx` and `mxnet.gluon.nn` are mxforge.

Both names refer to the same modules. Removed names of Python and NumPy that packages for MXNet use are restored (see
old_names.py). All modules of MXNet are in `sys.modules`, as after importing MXNet (see lazy.py). If real MXNet is
already loaded, ImportError is raised.
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
        file = getattr(loaded, "__file__", None) or "an unknown file"
        raise ImportError(f"mxnet is already imported, from {file}: import mxforge.as_mxnet before it")
    restore_in_python()
    restore_in_numpy()
    sys.meta_path.insert(0, RenamedPackage("mxnet", _ROOT))
    sys.modules["mxnet"] = sys.modules[_ROOT]
    folder_aliases(_ROOT).register_modules("mxnet")


_install()
