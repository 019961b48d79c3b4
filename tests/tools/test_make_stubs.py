"""The type stubs in the repository agree with the declarations."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import mxforge as mx
import pytest
from mxforge.ir.dialects.mx.operator import lookup
from mxforge.tools.make_stubs import function_stub, stubs

STUBS = stubs()


@pytest.mark.parametrize("path", sorted(STUBS), ids=lambda p: p.name)
def test_stub_is_current(path: Path) -> None:
    assert path.read_text() == STUBS[path], "run `python -m mxforge.tools.make_stubs`"
    ast.parse(STUBS[path])


def test_a_function_in_one_line() -> None:
    assert function_stub("relu", lookup("relu")) == (
        "def relu(data: NDArray | None = ..., out: NDArray | Sequence[NDArray] | None = ..., "
        "name: str | None = ..., *, ctx: Context | None = ...) -> NDArray: "
        '"""The rectifier: negative elements become 0."""'
    )


EACH_FAMILY = """
import os
from mxforge.ir.dialects.mx.families import DECLARED_NAMES
from mxforge.ir.dialects.mx.operator import find

for names in DECLARED_NAMES.values():  # each look-up where no other file has been imported
    child = os.fork()
    if not child:
        os._exit(0 if find(names.split()[-1]) else 1)
    assert os.waitpid(child, 0)[1] == 0, names
"""


def test_the_index_names_the_file_that_declares() -> None:
    subprocess.run([sys.executable, "-c", EACH_FAMILY], check=True)


def test_functions_in_use_do_not_change_the_stubs() -> None:
    """A function of an operator is created on first use, and is then among the module's names."""
    before = stubs()  # other tests can have declared operators
    for module, name in ((mx.nd.op, "SVMOutput"), (mx.nd.contrib, "box_nms"), (mx.nd.linalg, "potrf")):
        getattr(module, name)
    assert stubs() == before
