"""Records what programs on NDArrays give in MXNet: ndarray.json, array.json, sparse.json, limit.json and shape.json
beside this file.

Run by real MXNet 1.9.1 and not by this project: `python make_ndarray_goldens.py`, in an environment with Python 3.9,
`mxnet==1.9.1` and `numpy==1.23.5`. The programs stand in ndarray_cases.py, array_cases.py, sparse_cases.py,
limit_cases.py and shape_cases.py, which the tests run too.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import array_cases
import limit_cases
import ndarray_cases
import numpy as np
import shape_cases
import sparse_cases

HERE = Path(__file__).resolve().parent
CASES = {
    "ndarray": ndarray_cases,
    "array": array_cases,
    "sparse": sparse_cases,
    "limit": limit_cases,
    "shape": shape_cases,
}
"""The file of records that each module's programs have."""


def stored(array: Any) -> list[Any]:
    """What a sparse array stores, each row of a csr matrix in the order of its columns."""
    data, indices = array.data.asnumpy(), array.indices.asnumpy()
    if array.stype != "csr":
        return [data, indices]
    indptr = array.indptr.asnumpy()
    order = np.lexsort((indices, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))))
    return [data[order], indices[order], indptr]


def describe(value: Any) -> Any:
    """A result as JSON: arrays as {shape, dtype, values}, other things as {type, text}."""
    if getattr(value, "stype", "default") != "default":
        return {"stype": value.stype, "shape": list(value.shape), "parts": [describe(p) for p in stored(value)]}
    if hasattr(value, "asnumpy"):
        value = value.asnumpy()
    if isinstance(value, np.ndarray):
        values = value
        return {
            "shape": list(values.shape),
            "dtype": values.dtype.name,
            "values": [repr(v) for v in values.ravel().tolist()],
        }
    if isinstance(value, (list, tuple)):
        return [describe(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return {"type": type(value).__name__, "text": str(value)}


def settle(mx: Any) -> None:
    """Let MXNet raise what former programs left behind: its errors come at some later synchronisation."""
    try:
        mx.nd.waitall()
    except Exception:
        settle(mx)


def run(program: str, mx: Any, setup: str = ndarray_cases.SETUP) -> Any:
    """What a program gives: the description of its value, or {error: names of the exception's classes}."""
    scope = {"mx": mx, "nd": mx.nd, "np": np}
    settle(mx)
    exec(setup, scope)
    *statements, last = program.split("; ")
    try:
        exec("; ".join(statements), scope)
        if " = " in last:
            exec(last, scope)
            return describe(None)
        return describe(eval(last, scope))
    except Exception as error:
        return {"error": [c.__name__ for c in type(error).__mro__[:-2]]}


def main() -> None:
    import mxnet as mx

    for name, cases in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # where some programs leave files
            records = {program: run(program, mx, cases.SETUP) for program in cases.programs()}
        lines = ",\n".join(f"{json.dumps(p)}: {json.dumps(r)}" for p, r in records.items())
        (HERE / f"{name}.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
