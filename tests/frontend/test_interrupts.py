"""Ctrl-C during a lazy import: KeyboardInterrupt is raised, and the next use works."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from processes import run_apart

# SIGINT arrives while `module` is searched for.
CODE = """
import signal, sys
class Interrupt:
    def find_spec(self, fullname, path=None, target=None):
        if fullname == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
import mxforge as mx
sys.meta_path.insert(0, Interrupt())
def work():
    {work}
try:
    work()
except KeyboardInterrupt:
    before = set(sys.modules)
    work()
    work()
else:
    raise AssertionError("not interrupted")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
SUM = "assert mx.nd.ones((2, 3)).sum().asscalar() == 6"
COMPILED_SUM = (
    "assert mx.nd.ones((2, 3), dtype='float16').sum().asscalar() == 6"  # the libraries of the package have none
)
NET = "net = mx.gluon.nn.Dense(2, in_units=3); net.initialize(); net.hybridize(); net(mx.nd.ones((1, 3)))"
IMAGE = "import numpy; mx.recordio.pack_img(mx.recordio.IRHeader(0, 1, 2, 0), numpy.zeros((4, 4, 3), 'uint8'))"
CASES = [
    ("numpy", SUM),
    ("numpy.linalg", SUM),
    ("mxforge.nd", SUM),
    ("mxforge.frontend.ndarray", SUM),
    ("mxforge.frontend.ndarray.op", SUM),
    ("mxforge.ir.types", SUM),
    ("mxforge.ir.dialects.mx.reduce", SUM),
    ("mxforge.codegen.driver", SUM),
    ("mxforge.codegen.llvm.compile", COMPILED_SUM),
    ("llvmlite", COMPILED_SUM),
    ("llvmlite.binding.ffi", COMPILED_SUM),
    ("mxforge.frontend.gluon.nn", NET),
    ("mxforge.frontend.symbol", NET),
    ("numpy.linalg", "from mxforge.gluon import nn"),
    pytest.param("cv2.version", IMAGE, marks=pytest.mark.skipif(find_spec("cv2") is None, reason="needs OpenCV")),
    ("numpy.linalg", "import mxforge.frontend.optimizer"),
]


@pytest.mark.parametrize(("module", "work"), CASES)
def test_the_next_use_works(module: str, work: str, tmp_path: Path) -> None:
    run_apart(CODE.format(module=module, work=work), tmp_path)


OTHERS = """
import signal, sys, threading
import mxforge as mx
noted = []
signal.signal(signal.SIGINT, lambda *_: noted.append(sys.modules["mxforge.frontend.ndarray"].ones))
class Interrupt:
    def find_spec(self, fullname, path=None, target=None):
        if fullname == "numpy.linalg":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
mx.nd.ones
assert len(noted) == 1
"""


def test_the_programs_own_handler_is_called_after_the_import() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", OTHERS], check=True, timeout=120)


# Ctrl-C while the module that declares an operator runs; all others are loaded, so its import is the outermost.
OUTERMOST = """
import signal, sys
import mxforge as mx
from mxforge.ir.dialects.mx import operator
data = mx.sym.var("data")
mx.sym.softmax(data)
assert "mxforge.ir.dialects.mx.output_ops" not in sys.modules
class Registry(dict):
    def __setitem__(self, name, cls):
        super().__setitem__(name, cls)
        if name == "SoftmaxOutput":
            signal.raise_signal(signal.SIGINT)
operator._REGISTRY = Registry(operator._REGISTRY)
try:
    mx.sym.SoftmaxOutput(data)
except KeyboardInterrupt:
    assert mx.sym.SoftmaxOutput(data, name="softmax").list_arguments() == ["data", "softmax_label"]
else:
    raise AssertionError("not interrupted")
"""


def test_the_next_use_of_an_operator_whose_import_was_interrupted(tmp_path: Path) -> None:
    run_apart(OUTERMOST, tmp_path)
