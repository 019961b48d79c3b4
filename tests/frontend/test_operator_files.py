"""The node of each operator in a symbol file equals the node that MXNet writes."""

from __future__ import annotations

import hashlib
from typing import Any

import mxforge as mx
import pytest
from goldens import Golden, operator_goldens, symbol_function
from mxforge.ir.dialects.mx.operator import lookup

# MXNet's functions for these operators do not accept all recorded inputs.
OTHER_INPUTS = ("BatchNorm_v1", "fill_element_0index")
# An input in the middle can be omitted, so later inputs are passed by name.
NAMED_INPUTS = ("CTCLoss",)


@pytest.mark.parametrize("op", sorted({g.op for g in operator_goldens()} - set(OTHER_INPUTS)))
def test_the_files_of_an_operator(op: str) -> None:
    def differs(golden: Golden) -> bool:
        inputs = [mx.sym.var(f"x{i}") for i in range(len(golden.inputs))]
        named: dict[str, Any] = {}
        if op in NAMED_INPUTS:
            named = dict(zip(lookup(op).parse(golden.attributes).input_names(), inputs, strict=True))
        text = symbol_function(op)(*([] if named else inputs), name="n", **named, **golden.attributes).tojson()
        return hashlib.sha256(text.encode()).hexdigest()[:8] != golden.file

    assert [str(golden) for golden in operator_goldens() if golden.op == op and golden.file and differs(golden)] == []
