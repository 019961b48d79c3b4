"""A node of every primitive that `passes/layout_rules.py` has a rule for, with the types of its operands."""

from __future__ import annotations

import numpy as np
from mxforge.ir.dialects.core import (
    Broadcast,
    Cast,
    Concat,
    Constant,
    Conv,
    ConvWeightGradient,
    Iota,
    Pad,
    Pointwise,
    Reduce,
    ReduceWindow,
    Reverse,
    SelectAndScatter,
    Slice,
    Transpose,
)
from mxforge.ir.graph import Op
from mxforge.ir.scalar import ReduceOp, ScalarOp
from mxforge.ir.types import DType, TensorType
from rewriting import tensor

NONE = (0, 0)
SHAPE = (2, 16, 6, 5)
UNIT = (1, 1)
SCALAR = TensorType((), DType.F32)
LAYOUT_SAMPLES: list[tuple[Op, tuple[TensorType, ...]]] = [
    (Conv(UNIT, ((1, 1), (1, 1)), UNIT, UNIT), (tensor(*SHAPE), tensor(12, 16, 3, 3))),
    (Conv(UNIT, ((1, 1), (0, 0)), UNIT, UNIT), (tensor(2, 3, 6, 5), tensor(12, 3, 3, 3))),
    *(
        (ConvWeightGradient((3, 3), UNIT, ((1, 1), (0, 0)), UNIT), (tensor(2, c, 6, 5), tensor(2, 12, 6, 3)))
        for c in (16, 3)
    ),
    (Pointwise(ScalarOp.SUB), (tensor(*SHAPE), tensor(*SHAPE))),
    (Pointwise(ScalarOp.GT), (tensor(*SHAPE), tensor(*SHAPE))),
    *((Cast(dtype), (tensor(*SHAPE),)) for dtype in (DType.F16, DType.F64)),
    (ReduceWindow(ReduceOp.MAX, (1, 1, 2, 3), (1, 1, 2, 1), (NONE, NONE, (0, 1), (1, 1)), (1,) * 4), (tensor(*SHAPE),)),
    (ReduceWindow(ReduceOp.ADD, (1, 3, 1, 1), (1,) * 4, (NONE, (1, 1), NONE, NONE), (1,) * 4), (tensor(*SHAPE),)),
    (SelectAndScatter((1, 1, 2, 3), (1, 1, 2, 1), (NONE, NONE, (0, 1), (1, 1))), (tensor(*SHAPE), tensor(2, 16, 3, 5))),
    (SelectAndScatter((1, 3, 1, 1), (1,) * 4, (NONE, (1, 1), NONE, NONE)), (tensor(*SHAPE), tensor(*SHAPE))),
    (Concat(1), (tensor(*SHAPE), tensor(2, 16, 6, 5), tensor(2, 3, 6, 5))),
    (Concat(1), (tensor(2, 3, 6, 5), tensor(*SHAPE))),
    (Reduce(ReduceOp.ADD, (2, 3)), (tensor(*SHAPE),)),
    (Reduce(ReduceOp.ADD, (1,)), (tensor(*SHAPE),)),
    *((Reduce(ReduceOp.MIN, axes), (tensor(2, 12, 6, 5),)) for axes in ((1,), (0, 2, 3), (3,), (0, 1, 2, 3))),
    *((Transpose(order), (tensor(2, 12, 6, 5),)) for order in ((0, 2, 3, 1), (0, 1, 3, 2), (1, 0, 3, 2))),
    (Reverse((2, 3)), (tensor(2, 12, 6, 5),)),
    (Reverse((0, 1)), (tensor(*SHAPE),)),
    (Slice((0, 8, 1, 0), (2, 13, 6, 5), (1, 1, 2, 1)), (tensor(*SHAPE),)),
    (Slice((0, 3, 0, 0), (2, 16, 6, 5), (1,) * 4), (tensor(*SHAPE),)),
    (Pad((0, 0, 1, -1), (1, 0, 0, 2), (0,) * 4), (tensor(2, 12, 6, 5), SCALAR)),
    (Pad((0,) * 4, (0,) * 4, (0, 0, 1, 0)), (tensor(2, 12, 6, 5), SCALAR)),
    (Pad((0, 1, 0, 0), (0,) * 4, (0,) * 4), (tensor(*SHAPE), SCALAR)),
    (Broadcast(SHAPE, (0, 1, 2, 3)), (tensor(2, 16, 1, 1),)),
    (Constant(np.ones(SHAPE, np.float32)), ()),
    (Iota(SHAPE, DType.F32, 1), ()),
]
