"""Small contrib operators return what MXNet 1.9.1 returned for the same calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mxforge.ir.dialects.core import interpret
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.dialects.mx.operator import lookup
from mxforge.ir.types import DType, TensorType

X = [-2.5, -0.5, 0.5, 1.5, 2.4]
BOXES = [[0, 0, 2, 2], [1, 1, 3, 3]]
OTHERS = [[1, 1, 2, 2], [5, 5, 6, 6], [0, 0, 2, 2]]


def call(name: str, *arrays: Any, **attrs: Any) -> np.ndarray:
    inputs = [np.asarray(a, np.float32) for a in arrays]
    b = MxBuilder(name)
    values = [b.input(TensorType(a.shape, DType.from_numpy(a.dtype))) for a in inputs]
    return interpret(b.build(lookup(name).parse(attrs).results(b, *values)), inputs)[0]


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("_contrib_round_ste", (X,), {}, [-3, -1, 1, 2, 2]),
    ("_contrib_sign_ste", (X,), {}, [-1, -1, 1, 1, 1]),
    ("_contrib_quadratic", (X,), {"a": 1, "b": 2, "c": 3}, [4.25, 2.25, 4.25, 8.25, 13.56]),
    ("_contrib_index_array", (np.ones((2, 3)),), {"axes": (1,)}, [[[0], [1], [2]], [[0], [1], [2]]]),
    ("_contrib_index_array", (np.ones((2, 2)),), {}, [[[0, 0], [0, 1]], [[1, 0], [1, 1]]]),
    ("_contrib_allclose", (X, [x + 1e-3 for x in X]), {"rtol": 1e-5, "atol": 1e-2}, 1),
    ("all_finite", ([1, np.inf],), {}, [0]),
    ("softmax_cross_entropy", ([[1, 2, 3], [3, 1, 0.5]], [2, 1]), {}, [2.60434]),
    ("_contrib_box_iou", (BOXES, OTHERS), {}, [[0.25, 0, 1], [0.25, 0, 0.14285715]]),
    (
        "_contrib_box_iou",
        (BOXES, OTHERS),
        {"format": "center"},
        [[0.14285715, 0, 1], [0.44444445, 0.00558659, 0.20930232]],
    ),
    ("Embedding", ([-1, 5, 1], [[1, 2], [3, 4], [5, 6]]), {"input_dim": 3, "output_dim": 2}, [[1, 2], [5, 6], [3, 4]]),
    ("argmax", ([[1, np.nan, 3]],), {"axis": 1}, [1]),
    ("relu", ([np.nan],), {}, [np.nan]),
    ("topk", ([1, 1, 2, 2],), {"k": 3}, [2, 3, 0]),
    ("argsort", ([1, 1, 2, 2],), {"is_ascend": False}, [2, 3, 0, 1]),
]


@pytest.mark.parametrize(("name", "arrays", "attrs", "expected"), CALLS, ids=[c[0] for c in CALLS])
def test_calls(name: str, arrays: tuple[Any, ...], attrs: dict[str, Any], expected: Any) -> None:
    result = call(name, *arrays, **attrs)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
