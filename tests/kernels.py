"""A kernel and a program for the tests of printing, hashing and verification."""

from __future__ import annotations

from mxforge.ir.kernel import (
    Axis,
    AxisKind,
    AxisValue,
    Buffer,
    Cast,
    Const,
    Contract,
    Kernel,
    Load,
    Local,
    Reduce,
    ReduceOp,
    Ref,
    Scalar,
    Store,
    affine,
)
from mxforge.ir.program import Copy, Launch, Place, Program, Space
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, Layout, TensorType

ROW_AXIS, K = affine(("i", 1)), affine(("k", 1))
X = Load("x", (ROW_AXIS, K))
EXPONENT = Scalar(ScalarOp.EXP, (Scalar(ScalarOp.SUB, (X, Ref("m"))),))
GATHERED = Load("x", (Load("t", (affine(("k", 2), offset=-3),), Const(0, DType.I32)), K))
DOT = Contract(lhs=X, rhs=GATHERED, rows=("i",), columns=(), inner=("k",), accumulator=DType.F32, dtype=DType.F32)
POSITION = Cast(DType.F32, AxisValue("i"))

SOFTMAX = Kernel(
    "softmax",
    (
        Buffer("x", DType.F32, ("n", 8)),
        Buffer("y", DType.F32, ("n", 8), None, ("s", 1), True),
        Buffer("t", DType.I32, (5,)),
        Buffer("z", DType.F32, (1, 16, 4, 4), Layout(8, ((1, 1), (1, 1)))),
    ),
    ("n", "s"),
    (Axis("i", "n"), Axis("k", 8, AxisKind.REDUCE)),
    (
        Local("m", ("i",), Reduce(ReduceOp.MAX, ("k",), X)),
        Local("s", ("i",), Reduce(ReduceOp.ADD, ("k",), EXPONENT)),
        Store("y", (ROW_AXIS, K), Scalar(ScalarOp.DIV, (EXPONENT, Ref("s")))),
        Store("y", (ROW_AXIS, affine(offset=3)), Scalar(ScalarOp.ADD, (DOT, POSITION))),
    ),
)

PROGRAM = Program(
    "net",
    (TensorType((2, 3), DType.F32), TensorType((4,), DType.F32)),
    (TensorType((2, 3), DType.F32), TensorType((4,), DType.F32)),
    frozenset({1}),
    (
        Launch("k", (Place(Space.INPUT), Place(Space.ARENA, 0, 64), Place(Space.OUTPUT, 0, 8), 7), 4, 1, "row", (0,)),
        Copy(Place(Space.OUTPUT, 1), Place(Space.INPUT, 1), 16),
    ),
    (Launch("pack", (Place(Space.INPUT, 1), Place(Space.PREPARED)), 1, 1),),
    128,
    16,
    b"\0\0\0\0",
    (),
    names=("relu",),
)
