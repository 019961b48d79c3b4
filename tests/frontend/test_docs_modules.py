"""MXNet's modules of additional documentation."""

from __future__ import annotations

from typing import Any

import mxforge as mx
import pytest


def test_shapes_for_documentation() -> None:
    made: Any = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="fc")
    assert mx.symbol_doc.SymbolDoc.get_output_shape(made, x=(2, 4)) == {"fc_output": (2, 3)}
    with pytest.warns(UserWarning), pytest.raises(mx.MXNetError, match="do not determine"):
        mx.symbol_doc.SymbolDoc.get_output_shape(made)
    assert issubclass(mx.ndarray_doc.StackDoc, mx.ndarray_doc.NDArrayDoc)
