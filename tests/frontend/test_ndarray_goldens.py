"""NDArray programs give what MXNet 1.9.1 recorded for them: values, shapes, dtypes, texts and kinds of errors."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from goldens import DATA

# Where mxforge means to differ, and why.
DIFFERENT = {
    "y = nd.ones((2, 2)); nd.dot(y, y, out=y); y": "MXNet overwrites the operand while it still reads it",
    "nd.array([m, m])": "a list of arrays is array-like",
    "nd.relu(1)": "TypeError says that an argument has the wrong type, and not an assertion",
    "nd.relu(m, bogus=1)": "an unknown parameter is an error",
    "x -= x[0]; x": "MXNet overwrites x[0] while it still reads it",
    "x[[0, 1], None]": "None after an index array makes an axis after that array's, as in NumPy",
    "x[[0, 5]].shape": "errors come at the call, not at the next synchronisation",
}

NOT_YET = {
    "m.sort(is_ascend=False)": "core.sort has no kernel",
    "m.topk(k=2)": "core.sort has no kernel",
    "nd.topk(m, ret_typ='both')": "core.sort has no kernel",
    "nd.histogram(m, bins=2)": "_histogram is not declared",
    "nd.linalg.gemm2(m, m.T)": "_linalg_gemm2 is not declared",
}


@cache
def recorder() -> Any:
    """tests/data/make_ndarray_goldens.py, whose `run` made the records."""
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


RECORDS: dict[str, Any] = json.loads((DATA / "ndarray.json").read_text())


def agrees(found: Any, recorded: Any) -> bool:
    """Equal, with room for the last bits of floats; an error has MXNet's first class among its own."""
    if isinstance(recorded, list):
        return isinstance(found, list) and len(found) == len(recorded) and all(map(agrees, found, recorded))
    if "error" in recorded:
        return recorded["error"][0] in found.get("error", ())
    if "values" not in recorded or "values" not in found:
        return bool(found == recorded)
    same_type = (found["shape"], found["dtype"]) == (recorded["shape"], recorded["dtype"])
    if recorded["dtype"] == "bool":
        return same_type and bool(found["values"] == recorded["values"])
    values = [np.array(list(map(float, r["values"]))) for r in (found, recorded)]
    return same_type and np.allclose(*values, rtol=1e-3 if "16" in recorded["dtype"] else 1e-6, equal_nan=True)


def test_every_program_is_recorded() -> None:
    assert recorder().programs() == list(RECORDS)


@pytest.mark.parametrize("program", sorted(RECORDS))
def test_program(program: str) -> None:
    found, recorded = recorder().run(program, mx), RECORDS[program]
    if program in DIFFERENT:
        assert not agrees(found, recorded), "it agrees now: take it off the list"
        return
    if program in NOT_YET and not agrees(found, recorded):
        pytest.xfail(NOT_YET[program])
    assert agrees(found, recorded), f"{found} instead of {recorded}"
