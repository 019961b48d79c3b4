"""The table of scalar operations for LLVM is total, and each entry agrees with NumPy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from contractions import HOST, Compiled
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.scalars import RULES, emit_scalar
from mxforge.codegen.llvm.types import PTR, memory_type_of
from mxforge.ir.dialects.core.scalar_rules import EXPANDED
from mxforge.ir.scalar import FLOAT_ONLY, ScalarOp, result_dtype
from mxforge.ir.types import DType

pytest.importorskip("llvmlite.binding")


def test_table_is_total() -> None:
    assert set(RULES) == set(ScalarOp) - EXPANDED


def compute(op: ScalarOp, dtype: DType, *operands: np.ndarray) -> np.ndarray:
    """The result of `op` on arrays of 8 elements."""
    module = ModuleBuilder(HOST)
    f = module.function("f", None, [(f"p{k}", PTR, "") for k in range(4)])
    dtypes = [DType.from_numpy(a.dtype) for a in operands]
    result = result_dtype(op, *dtypes)
    values = []
    for pointer, d in zip(f.args, dtypes, strict=False):
        value = f.load(pointer, memory_type_of(d, 8))
        values.append(f.convert(value, "i1") if d is DType.BOOL else value)
    value = emit_scalar(f, op, values, dtype)
    f.store(f.convert(value, "i8", signed=False) if result is DType.BOOL else value, f.args[3])
    f.ret()
    out = np.zeros(8, result.numpy)
    code = Compiled(module.text(), HOST)
    address = code.object.symbols["f"]
    arrays = [*operands, *[out] * (3 - len(operands)), out]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(address)(*[a.ctypes.data for a in arrays])
    return out


K = np.array([-128, -7, -1, 0, 1, 5, 100, 127], np.int8)
J = np.array([-1, 3, 0, 0, -4, 2, 9, 127], np.int8)
U = np.array([0, 1, 2, 100, 200, 255, 7, 9], np.uint8)
X = np.array([-2.5, -0.5, 0.5, 1.5, 2.0, 3.0, np.nan, np.inf], np.float32)
Y = np.array([1, 2, -3, 0.5, np.nan, 3, 1, -np.inf], np.float32)
with np.errstate(all="ignore"):
    CASES = [
        (
            ScalarOp.DIV,
            (K, J),
            np.where(J == 0, 0, np.trunc(K / np.where(J == 0, 1, J).astype(float))).astype(np.int64).astype(np.int8),
        ),
        (ScalarOp.MOD, (K, J), np.where(J == 0, 0, np.mod(K.astype(int), np.where(J == 0, 1, J))).astype(np.int8)),
        (
            ScalarOp.MOD,
            (U, U[::-1].copy()),
            np.where(U[::-1] == 0, 0, U % np.where(U[::-1] == 0, 1, U[::-1])).astype(np.uint8),
        ),
        (ScalarOp.SIGN, (K,), np.sign(K)),
        (ScalarOp.SIGN, (X,), np.sign(X)),
        (ScalarOp.ABS, (K,), np.abs(K)),
        (ScalarOp.ABS, (U,), U),
        (ScalarOp.MAX, (U, U[::-1].copy()), np.maximum(U, U[::-1])),
        (ScalarOp.MIN, (X, Y), np.minimum(X, Y)),
        (ScalarOp.MAX, (X, Y), np.maximum(X, Y)),
        (ScalarOp.LT, (U, U[::-1].copy()), U[::-1] > U),
        (ScalarOp.LT, (K, J), K < J),
        (ScalarOp.LE, (X, Y), X <= Y),
        (ScalarOp.NE, (X, Y), X != Y),
        (ScalarOp.IS_NAN, (X,), np.isnan(X)),
        (ScalarOp.IS_INF, (X,), np.isinf(X)),
        (ScalarOp.IS_FINITE, (X,), np.isfinite(X)),
        (ScalarOp.IS_FINITE, (K,), np.isfinite(K)),
        (ScalarOp.SHIFT_LEFT, (U, U), np.where(U < 8, U.astype(int) << np.minimum(U, 8), 0).astype(np.uint8)),
        (ScalarOp.SHIFT_RIGHT, (K, U.astype(np.int8)), K.astype(int) >> np.where((U >= 8), 8, U)),
        (ScalarOp.NOT, (K,), ~K),
        (ScalarOp.NOT, (K > 0,), ~(K > 0)),
        (ScalarOp.XOR, (K > 0, J > 0), (K > 0) ^ (J > 0)),
        (ScalarOp.SELECT, (K > 0, X, Y), np.where(K > 0, X, Y)),
        (ScalarOp.FLOOR, (X,), np.floor(X)),
        (ScalarOp.FLOOR, (K,), K),
        (ScalarOp.RINT, (X,), np.rint(X)),
        (ScalarOp.NEG, (K,), -K),
        (ScalarOp.POW, (J, np.abs(J) % 3), J.astype(int) ** (np.abs(J) % 3)),
        (ScalarOp.ADD, (K > 0, J > 0), (K > 0) | (J > 0)),
    ]


@pytest.mark.parametrize(
    ("op", "operands", "expected"), CASES, ids=[f"{op.value}-{o[-1].dtype}-{k}" for k, (op, o, _) in enumerate(CASES)]
)
def test_operation(op: ScalarOp, operands: tuple[np.ndarray, ...], expected: np.ndarray) -> None:
    found = compute(op, DType.from_numpy(operands[-1].dtype), *operands)
    np.testing.assert_array_equal(found, expected.astype(found.dtype))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16], ids=lambda d: d.value)
def test_every_float_operation_compiles(dtype: DType) -> None:
    """1 is in the domain of all operations except erfinv and arctanh."""
    edges = (ScalarOp.ERFINV, ScalarOp.ATANH)
    for op in (ScalarOp.EXP, ScalarOp.TANH, ScalarOp.ERF, ScalarOp.ATAN2) if dtype is not DType.F32 else FLOAT_ONLY:
        x = np.full(8, 0.5 if op in edges else 1.0, dtype.numpy)
        found = compute(op, dtype, *[x] * op.arity)
        assert np.isfinite(found).all(), op


def test_digamma() -> None:
    x = np.array([0.1, 1.0, 2.0, 10.0, -0.5, -1.5, 0.5, 100.0], np.float32)
    expected = [-10.4237549, -0.577215665, 0.422784335, 2.25175259, 0.0364899740, 0.703156641, -1.96351003, 4.60016185]
    np.testing.assert_allclose(compute(ScalarOp.DIGAMMA, DType.F32, x), expected, rtol=2e-6, atol=1e-6)
