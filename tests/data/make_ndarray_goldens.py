"""Records what programs on NDArrays give in MXNet: ndarray.json beside this file.

Run by real MXNet 1.9.1 and not by this project: `python make_ndarray_goldens.py`, in an environment with Python 3.9,
`mxnet==1.9.1` and `numpy==1.23.5`. The programs stand in ndarray_cases.py, which the tests run too.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from ndarray_cases import SETUP, programs


def describe(value: Any) -> Any:
    """A result as JSON: arrays as {shape, dtype, values}, other things as {type, text}."""
    if hasattr(value, "asnumpy"):
        values = value.asnumpy()
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


def run(program: str, mx: Any) -> Any:
    """What a program gives: the description of its value, or {error: names of the exception's classes}."""
    scope = {"mx": mx, "nd": mx.nd, "np": np}
    exec(SETUP, scope)
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

    records = {program: run(program, mx) for program in programs()}
    path = Path(__file__).with_name("ndarray.json")
    lines = ",\n".join(f"{json.dumps(p)}: {json.dumps(r)}" for p, r in records.items())
    path.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
