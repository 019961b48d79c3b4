"""NDArray programs agree with the records of MXNet 1.9.1: values, shapes, dtypes, texts and error types."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from goldens import DATA
from grouped import grouped

FILES = ("ndarray", "array", "sparse", "limit", "shape")
"""Names of the record files, and of the programs in tests/data/NAME_cases.py."""

# Intended differences, with reasons.
DIFFERENT = {
    "y = nd.ones((2, 2)); nd.dot(y, y, out=y); y": "MXNet overwrites the operand while it still reads it",
    "nd.array([m, m])": "a list of arrays is array-like",
    "x -= x[0]; x": "MXNet overwrites x[0] while it still reads it",
    "x[[0, 1], None]": "None after an index array makes an axis after that array's, as in NumPy",
    "x[np.array([True, False])]": "masks of NumPy's select as there, where MXNet takes them for indices 0 and 1",
    "m[np.array([True, False])] = nd.array([[7, 8, 9]]); m": "masks of NumPy's select as there",
    "v[1:] = v[:-1]; v": "MXNet overwrites what it still reads",
    "m -= m[0]; m": "MXNet overwrites m[0] while it still reads it",
    "sp.zeros('csr', (2, 3, 4))": "a csr array has two axes",
    "c[4]": "errors come at the call, and an iteration over the rows ends",
    "d[:] = ce; d": "a dense array takes the elements of a sparse one",
    "d[:] = re; d": "a dense array takes the elements of a sparse one",
    "d[0] = ce[0]; d": "a dense array takes the elements of a sparse one",
    "d[0:2] = ce[1:3]; d": "a dense array takes the elements of a sparse one",
    "c / e": "MXNet does not find its own operator for it",
    "nd.broadcast_div(c, e)": "MXNet does not find its own operator for it",
    "sp.subtract(2, r)": "MXNet gives r - 2",
    "nd.concatenate([c, ce])": "Concat knows csr",
    "nd.dot(c, nd.array([1, 2, 3]))": "a vector is multiplied as a dense operand",
    "nd.dot(c, nd.array([1, 2, 3, 4]), transpose_a=True)": "a vector is multiplied as a dense operand",
    "nd.dot(nd.ones((3,)), c, transpose_b=True)": "a vector is multiplied as a dense operand",
    "nd.random.uniform(1, 0, shape=2).shape": "errors come at the call, not at the next synchronisation",
    "x[[0, 5]].shape": "errors come at the call, not at the next synchronisation",
    "(a + b).eval(a=e(0, 3), b=e(0, 3))[0]": "arrays without elements are arrays",
    "v = nd.array(5.0); v[:] = 3; v": "arrays without axes are arrays",
    "v = nd.array(5.0); v[()] = 3; v": "arrays without axes are arrays",
    "on(); nd.reshape(o(1, 1), shape=())": "MXNet gives an array that cannot be read",
    "on(); nd.linalg.syrk(z(3, 0))": "MXNet does not write the result",
    "on(); nd.linalg.det(o(2, 2))": "the shape is (1,) in both shape semantics",
    **{
        f"{mode}{program}": "the class of the error is another"
        for mode in ("", "on(); ")
        for program in ("e(-1, 2)", "nd.eye(-1)", "len(nd.array(1.0))", "(a + 1).simple_bind(mx.cpu(), a=(-1, 3))")
    },
}


@cache
def recorder() -> Any:
    """The module tests/data/make_ndarray_goldens.py, whose `run` made the records."""
    import sys

    sys.path.insert(0, str(DATA))
    try:
        spec = importlib.util.spec_from_file_location("make_ndarray_goldens", DATA / "make_ndarray_goldens.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(DATA))


RECORDS: dict[str, dict[str, Any]] = {name: json.loads((DATA / f"{name}.json").read_text()) for name in FILES}


def agrees(found: Any, recorded: Any) -> bool:
    """True for equal values, within rounding errors of floats. An error must be an instance of MXNet's error class."""
    if isinstance(recorded, list):
        return isinstance(found, list) and len(found) == len(recorded) and all(map(agrees, found, recorded))
    if "error" in recorded:
        return recorded["error"][0] in found.get("error", ())
    if "parts" in recorded:
        same = [found.get(key) == recorded[key] for key in ("stype", "shape")]
        return all(same) and agrees(found["parts"], recorded["parts"])
    if "values" not in recorded or "values" not in found:
        return bool(found == recorded)
    same_type = (found["shape"], found["dtype"]) == (recorded["shape"], recorded["dtype"])
    if recorded["dtype"] == "bool":
        return same_type and bool(found["values"] == recorded["values"])
    values = [np.array(list(map(float, r["values"]))) for r in (found, recorded)]
    return same_type and np.allclose(*values, rtol=1e-3 if "16" in recorded["dtype"] else 1e-6, equal_nan=True)


@pytest.mark.parametrize("name", FILES)
def test_every_program_is_recorded(name: str) -> None:
    assert list(dict.fromkeys(recorder().CASES[name].programs())) == list(RECORDS[name])


@dataclass(frozen=True)
class Program:
    """A program of a file of records, and its number there."""

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"

    @property
    def group(self) -> str:
        return f"{self.file}-{self.number // 50}"

    @property
    def recorded(self) -> Any:
        return RECORDS[self.file][self.text]


def programs(*files: str) -> list[Program]:
    return [Program(file, i, text) for file in files for i, text in enumerate(sorted(RECORDS[file]))]


def run(program: Program) -> Any:
    """What the program gives, in an empty folder, since programs write files."""
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            return recorder().run(program.text, mx, recorder().CASES[program.file].SETUP)
    finally:
        mx.util.set_np_shape(False)


@grouped("program", programs(*FILES), by=lambda program: program.group)
@pytest.mark.filterwarnings("ignore:You are attempting to copy:RuntimeWarning", "ignore:Cannot decide shape")
def test_program(program: Program) -> None:
    found, recorded = run(program), program.recorded
    if program.text in DIFFERENT:
        assert not agrees(found, recorded), "it agrees now: remove it from the list"
        return
    assert agrees(found, recorded), f"{found} instead of {recorded}"


ON_GPU = ("ndarray", "array")
WITHOUT_TRITON = re.compile(r"random|shuffle|sort|topk|histogram|multinomial|gamma|poisson|binomial")
"""Programs with operators that use sorts, scatters or loops, for which Triton has no kernels."""
ABOUT_CONTEXTS = re.compile(r"cpu\(|gpu\(|context|ctx|repr\(|str\(|format|%s|dlpack|get_gpu_count")
"""Programs whose results contain the context, that use a context, or that share host memory."""


def for_gpus() -> list[Program]:
    """The programs whose records are not for the CPU alone."""
    return [p for p in programs(*ON_GPU) if p.text not in DIFFERENT and not ABOUT_CONTEXTS.search(p.text)]


@pytest.mark.sampled(3)
@grouped("program", for_gpus(), by=lambda program: program.group)
@pytest.mark.filterwarnings("ignore:You are attempting to copy:RuntimeWarning")
@pytest.mark.usefixtures("simulated_gpus")
def test_program_on_a_gpu(program: Program) -> None:
    with mx.gpu(0):
        found, recorded = run(program), program.recorded
    error = found.get("error", ()) if isinstance(found, dict) else ()
    if "MXNetError" in error and WITHOUT_TRITON.search(program.text):
        return
    assert agrees(found, recorded), f"{found} instead of {recorded}"
