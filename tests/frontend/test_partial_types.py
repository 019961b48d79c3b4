"""Dtypes that follow from an operator's parameters although those of its operands are unknown."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import numpy as np
import pytest

sym = mx.sym
X, Y = sym.var("x"), sym.var("y")
HALF = np.float16


def cast() -> Any:
    return sym.Cast(X, dtype="float16")


# dtypes of arguments, outputs and states, recorded from MXNet 1.9.1
@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        (cast(), ([None], [HALF], [])),
        (cast() + Y, ([None, HALF], [HALF], [])),
        (sym.dot(cast(), Y), ([None, HALF], [HALF], [])),
        (sym.where(X, cast(), Y), ([None, HALF], [HALF], [])),
        (sym.FullyConnected(cast(), num_hidden=2), ([None, HALF, HALF], [HALF], [])),
        (sym.BatchNorm(cast()), ([None, np.float32, np.float32], [HALF], [np.float32, np.float32])),
        (sym.argsort(X, dtype="int32"), ([None], [np.int32], [])),
        (sym.topk(X, ret_typ="both", dtype="int32"), ([None], [None, np.int32], [])),
        (sym.shape_array(X), ([None], [np.int64], [])),
        (sym.amp_cast(X, dtype="float16"), ([None], [None], [])),
        (sym.relu(X), ([None], [None], [])),
        (sym.mean(X), ([None], [None], [])),
    ],
    ids=lambda v: v.name if isinstance(v, sym.Symbol) else "",
)
def test_partial_types(symbol: Any, expected: Any) -> None:
    assert symbol.infer_type_partial() == expected


def test_a_cast_does_not_decide_the_dtype_of_its_operand() -> None:
    with pytest.warns(UserWarning, match="x: None"):
        assert cast().infer_type() == (None, None, None)


def test_operators_without_inputs_ignore_symbols() -> None:
    """As in MXNet."""
    drawn = sym.random.randn(2, 3, loc=1, scale=2, dtype="float64", data=X)
    assert drawn.list_arguments() == [] and drawn.infer_shape()[1] == [(2, 3)]
    assert drawn.infer_type()[1] == [np.float64]
    with pytest.raises(mx.MXNetError, match="Keyword argument name data not found"):
        sym.random.randn(2, 3, loc=X, scale=Y, data=X)
