"""After `import mxnet`, its modules are in `sys.modules` and are loaded on first access."""

from __future__ import annotations

import subprocess
import sys


def run(program: str) -> None:
    """Run a program in a separate process. AssertionError if an assertion fails there."""
    start = "import sys\nimport mxforge.as_mxnet\n"
    done = subprocess.run([sys.executable, "-c", start + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_modules_are_listed_and_not_loaded() -> None:
    run("""
names = ["mxnet.ndarray", "mxnet.symbol", "mxnet.gluon", "mxnet.gluon.nn.basic_layers", "mxnet.numpy"]
assert all(name in sys.modules for name in names)
for module in list(sys.modules.values()):  # as unittest and inspect do with every module
    getattr(module, "__warningregistry__", None), getattr(module, "__file__", None), repr(module)
assert "mxforge.frontend.ndarray" not in sys.modules and "mxforge.frontend.gluon" not in sys.modules
""")


def test_a_module_is_one_object_before_and_after() -> None:
    run("""
import importlib, types
early = sys.modules["mxnet.ndarray"], sys.modules["mxnet.gluon.utils"], sys.modules["mxnet.symbol.linalg"]
import mxnet as mx, mxnet.gluon.utils, mxforge
from mxnet.gluon.utils import split_data
assert early == (mx.nd, mx.gluon.utils, mx.sym.linalg)
assert all(type(module) is types.ModuleType for module in (mx.nd, mx.gluon.utils, mxforge.gluon.utils))
assert importlib.import_module("mxnet.ndarray") is mx.ndarray is sys.modules["mxforge.frontend.ndarray"]
assert early[0].NDArray is mx.nd.NDArray and early[1].split_data is split_data and early[0].__file__
""")


def test_access_loads_a_module_and_patches_are_visible_everywhere() -> None:
    run("""
late = sys.modules["mxnet.gluon.utils"]
late.download = "patched"
import mxnet
assert mxnet.gluon.utils.download == "patched" and late.__name__ == "mxforge.frontend.gluon.utils"
assert "NDArray" in dir(sys.modules["mxnet.ndarray"]) and "NDArray" in vars(sys.modules["mxnet.ndarray"])
del sys.modules["mxnet.metric"].F1
assert not hasattr(mxnet.metric, "F1")
""")


def test_threads_that_access_modules_at_once_find_them_complete() -> None:
    run("""
import threading
expected = {"mxnet.gluon.trainer": "Trainer", "mxnet.module.module": "Module", "mxnet.ndarray": "NDArray",
          "mxnet.symbol.symbol": "Symbol", "mxnet.gluon.nn": "Dense", "mxnet.model": "FeedForward"}
found, errors, start = [], [], threading.Barrier(12)
def touch(place, name):
    start.wait()
    try:
        found.append(getattr(sys.modules[place], name))
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=touch, args=pair) for pair in expected.items() for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join(60)
assert not errors and len(found) == 12, errors
""")


def test_a_failed_import_is_retried() -> None:
    run("""
late = sys.modules["mxnet.visualization"]
sys.modules["mxforge.frontend.symbol"] = None  # which visualization needs
for _ in range(2):
    try:
        late.print_summary
    except ImportError:
        pass
    else:
        raise AssertionError
del sys.modules["mxforge.frontend.symbol"]
assert callable(late.print_summary)
import mxnet
assert mxnet.visualization is late
""")


def test_modules_that_were_loaded_before_are_kept() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import mxforge as m; m.nd; import mxforge.as_mxnet, mxnet; assert mxnet.nd is m.nd"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
