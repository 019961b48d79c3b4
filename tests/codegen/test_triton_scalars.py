"""The table of scalar operations for Triton is total, and every entry agrees with the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

import mxforge.ir.dialects.core as primitives
from mxforge.codegen.triton.scalars import TEMPLATES, emit_scalar
from mxforge.codegen.triton.types import NAMES, POINTERS, is_plain_float, literal
from mxforge.ir.dialects.core.scalar_rules import EXPANDED, evaluate_scalar
from mxforge.ir.kernel import Axis, Buffer, Cast, Const, Expr, Kernel, Scalar, Store, affine
from mxforge.ir.scalar import ScalarOp, result_dtype
from mxforge.ir.types import DType
from support.triton_kernels import emitted, load, memory_dtype, run_source

POINTS = 64
INTEGERS = [d for d in DType if d.is_integer]
Array = np.ndarray[Any, Any]


def is_defined(op: ScalarOp, dtype: DType) -> bool:
    try:
        result_dtype(op, *operand_dtypes(op, dtype))
    except TypeError:
        return False
    return True


def operand_dtypes(op: ScalarOp, dtype: DType) -> tuple[DType, ...]:
    return (DType.BOOL, dtype, dtype) if op is ScalarOp.SELECT else (dtype,) * op.arity


def operands(dtype: DType) -> tuple[Array, Array]:
    """Ordinary numbers, then the limits of the dtype."""
    rng = np.random.default_rng(3)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, POINTS).astype(bool), rng.integers(0, 2, POINTS).astype(bool)
    if dtype.is_float:
        special = [0, -0.0, 1, np.inf, -np.inf, np.nan, 2.5, -2.5], [0, 1, 0, 2, 1, 1, np.nan, 1.5]
        x, y = (np.concatenate([3 * rng.standard_normal(POINTS - 8), s]) for s in special)
        return x.astype(dtype.numpy), y.astype(dtype.numpy)
    low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    minus = high if low == 0 else -1
    edges = np.array(
        [
            [low, low, high, 0, 0, minus, minus, minus, 2, 3, 3, low, 5, 30, 100],
            [minus, 0, high, low, minus, minus, 99, low, minus, 39, 41, 1, 64, 3, 4],
        ],
        dtype.numpy,
    )
    x, y = (rng.integers(max(-n, low), n, POINTS - edges.shape[1]).astype(dtype.numpy) for n in (50, 10))
    return np.concatenate([x, edges[0]]), np.concatenate([y, edges[1]])


def kernel_of(exprs: list[tuple[Expr, DType]], *dtypes: DType) -> Kernel:
    """One result for each expression over inputs x0, x1, ..."""
    inputs = tuple(Buffer(f"x{k}", d, (POINTS,)) for k, d in enumerate(dtypes))
    outputs = tuple(Buffer(f"y{k}", d, (POINTS,), written=True) for k, (_, d) in enumerate(exprs))
    stages = tuple(Store(f"y{k}", (affine(("i0", 1)),), e) for k, (e, _) in enumerate(exprs))
    return Kernel("scalars", (*inputs, *outputs), (), (Axis("i0", POINTS),), stages)


def test_tables_are_total() -> None:
    assert set(TEMPLATES) == set(ScalarOp) - EXPANDED
    assert set(NAMES) == set(POINTERS) == set(DType)


@pytest.mark.parametrize("op", ScalarOp, ids=lambda op: op.value)
def test_templates_cover_all_defined_operations(op: ScalarOp) -> None:
    for dtype in DType:
        if is_defined(op, dtype):
            assert emit_scalar(op, ["a", "b", "c"][: op.arity], dtype)


def test_undefined_operation_is_named() -> None:
    with pytest.raises(TypeError, match="exp is not defined on i32"):
        emit_scalar(ScalarOp.EXP, ["a"], DType.I32)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.BOOL, *INTEGERS], ids=lambda d: d.value)
def test_every_operation_agrees_with_the_interpreter(dtype: DType) -> None:
    """Tolerances: 2e-5 for float32 (digamma near its poles), 1e-7 for float64 (digamma's series), 0 for integers."""
    x, y = operands(dtype)
    condition = np.arange(POINTS) % 2 == 0
    ops = [op for op in ScalarOp if is_defined(op, dtype)]
    a, b, c = (load(f"x{k}", "i0") for k in range(3))
    of_arity = {1: (a,), 2: (a, b), 3: (c, a, b)}
    exprs: list[tuple[Expr, DType]] = [
        (Scalar(op, of_arity[op.arity]), result_dtype(op, *operand_dtypes(op, dtype))) for op in ops
    ]
    kernel = kernel_of(exprs, dtype, dtype, DType.BOOL)
    found = run_source(emitted(kernel), kernel, [x, y, condition])
    arrays = {1: (x,), 2: (x, y), 3: (condition, x, y)}
    tolerance = 1e-7 if dtype is DType.F64 else 2e-5
    for op, result in zip(ops, found, strict=True):
        expected = evaluate_scalar(op, *arrays[op.arity])
        if op in (ScalarOp.DIV, ScalarOp.SQRT):
            np.testing.assert_array_equal(result, expected, err_msg=op.value)
        np.testing.assert_allclose(
            result, expected, tolerance if dtype.is_float else 0, 1e-6 if dtype.is_float else 0, err_msg=op.value
        )


def numbers(dtype: DType) -> Array:
    """Numbers of a dtype: those that other dtypes round, and those that they do not hold."""
    if not dtype.is_float:
        return operands(dtype)[0]
    powers = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63) for d in (-0.75, 0, 0.75)]
    rounded = [1 + 2.0**-8, 1 + 2.0**-11 + 2.0**-30, 2049, 65519.9, 65520, 2.0**-25 + 2.0**-60]
    given = [*powers, *rounded, 1e300, np.inf, np.nan]
    with np.errstate(over="ignore"):
        return np.resize([*given, *(-x for x in given)], POINTS).astype(memory_dtype(dtype))


@pytest.mark.parametrize("source", DType, ids=lambda d: d.value)
def test_casts_agree_with_the_interpreter(source: DType) -> None:
    x = numbers(source)
    targets = [d for d in DType if d is not source]
    exprs: list[tuple[Expr, DType]] = [(Cast(d, load("x0", "i0")), d) for d in targets]
    kernel = kernel_of(exprs, source)
    for target, found in zip(targets, run_source(emitted(kernel), kernel, [x]), strict=True):
        wide = x.astype(np.float32) if source is DType.BF16 else x
        (expected,) = primitives.Cast(target).evaluate(wide)
        np.testing.assert_array_equal(found.astype(expected.dtype), expected, err_msg=target.value)


def test_a_cast_rounds_and_16_bit_arithmetic_does_not() -> None:
    """bfloat16 cannot represent 1 + 2^-9; only Cast and Store round."""
    tiny, one = Const(2.0**-9, DType.BF16), load("x0", "i0")
    total = Scalar(ScalarOp.ADD, (one, tiny))
    kept = Scalar(ScalarOp.SUB, (Cast(DType.F32, total), Const(1.0, DType.F32)))
    rounded = Scalar(ScalarOp.SUB, (Cast(DType.F32, Cast(DType.BF16, Cast(DType.F32, total))), Const(1.0, DType.F32)))
    kernel = kernel_of([(kept, DType.F32), (rounded, DType.F32)], DType.BF16)
    found = run_source(emitted(kernel), kernel, [np.ones(POINTS)])
    assert found[0][0] == 2.0**-9
    assert found[1][0] == 0


def test_literals_keep_their_type() -> None:
    x = np.full(POINTS, 0.5)
    exprs: list[tuple[Expr, DType]] = [
        (Scalar(ScalarOp.ADD, (load("x0", "i0"), Const(0.1, DType.F64))), DType.F64),
        (Scalar(ScalarOp.MAX, (load("x0", "i0"), Const(0.7, DType.F64))), DType.F64),
        (Scalar(ScalarOp.EXP, (Const(0.3, DType.F64),)), DType.F64),
        (Scalar(ScalarOp.MUL, (load("x1", "i0"), Const(1e-40, DType.F32))), DType.F32),
        (Scalar(ScalarOp.MAX, (load("x1", "i0"), Const(float("-inf"), DType.F32))), DType.F32),
        (Scalar(ScalarOp.ADD, (Const(2**40, DType.I64), Const(1, DType.I64))), DType.I64),
    ]
    kernel = kernel_of(exprs, DType.F64, DType.F32)
    found = run_source(emitted(kernel), kernel, [x, np.full(POINTS, 1e4, np.float32)])
    expected = [0.6, 0.7, np.exp(0.3), np.float32(1e4) * np.float32(1e-40), 1e4, 2**40 + 1]
    assert [f[-1] for f in found] == pytest.approx(expected, rel=1e-12)
    assert is_plain_float(1.0)
    assert not is_plain_float(1e-40)
    assert literal(float("-inf"), DType.F32) == "float('-inf')"
