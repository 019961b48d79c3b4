"""Scalar operations through upstream MLIR, on difficult numbers, against the interpreter and the CPU target."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from compiled import TARGETS, compiled, run_program
from mxforge.codegen.llvm.target import AVX2, CpuTarget
from mxforge.codegen.mlir.target import MlirTarget
from mxforge.ir.dialects.core import CoreBuilder, Pointwise, evaluate_graph
from mxforge.ir.graph import Value
from mxforge.ir.scalar import ScalarOp, result_dtype
from mxforge.ir.types import DType, TensorType
from mxforge.runtime.devices import HOST

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")

Array = np.ndarray[Any, Any]

FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 3.25, 0.3, 1e-3, 6e-8, 0.9999, 40.0, -7.0, 88.9, 1e4),
    *(np.inf, -np.inf, np.nan),
)
CONVERTED = (
    *(0.9999, -0.9999, 127.0, 128.0, -128.0, -129.0, 255.0, 256.0, 300.5, -300.5, 32768.0, 65519.0, 65536.0, -65536.5),
    *(2147483520.0, 2147483648.0, -2147483648.0, -2147484160.0, 4294967296.0, 3e9, -3e9, 9.2e18, 9.3e18, -9.3e18, 1e20),
    *(1e-40, 1.0009765625, 1.00048828125, 1 + 2**-8, 1 + 2**-8 + 2**-20, 1 + 3 * 2**-8, 2049.0, 2051.0),
)
INTEGERS = (0, 1, -1, 2, -2, 3, 7, -7, 31, 33, 64, 100, -100)
TOLERANCES = {DType.F16: 1.1e-3, DType.BF16: 8.5e-3, DType.F32: 2e-6, DType.F64: 1e-13}
"""A few roundings; those of 16 bits round once."""
LARGER = {ScalarOp.LGAMMA: 500.0, ScalarOp.DIGAMMA: 100.0, ScalarOp.ERFINV: 10.0, ScalarOp.GAMMA: 10.0}
"""By operation, how many times larger its tolerance is: near the zeros of a function its digits cancel."""
ZEROS = (ScalarOp.MAX, ScalarOp.MIN, ScalarOp.MOD)
"""Operations whose zeros have either sign."""


def numbers(dtype: DType, floats: tuple[float, ...] = FLOATS) -> Array:
    """Difficult numbers of a dtype; those of BF16 are float32."""
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return np.array(floats).astype(np.float32 if dtype is DType.BF16 else dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    inside = [n for n in INTEGERS if limits.min <= n <= limits.max]
    return np.array([*inside, limits.min, limits.max], dtype.numpy)


class Cases:
    """A graph of many operations on inputs of their own, and their arrays."""

    def __init__(self) -> None:
        self.b, self.arrays = CoreBuilder("cases"), list[Array]()
        self.outputs: list[Value] = []
        self.names: list[Any] = []

    def input(self, array: Array, dtype: DType) -> Value:
        self.arrays.append(np.ascontiguousarray(array))
        x = self.b.input(TensorType(array.shape, DType.from_numpy(array.dtype)))
        return self.b.cast(x, dtype) if x.type.dtype is not dtype else x

    def output(self, name: Any, x: Value) -> None:
        self.names.append(name)
        self.outputs.append(self.b.cast(x, DType.F32) if x.type.dtype is DType.BF16 else x)

    def compared(self) -> Iterator[tuple[Any, str, Array, Array]]:
        """The name of each output, a target, its result there, and what is expected."""
        graph = self.b.build(self.outputs)
        with np.errstate(all="ignore"):
            expected = evaluate_graph(graph, self.arrays)
        for name in ("cpu", "mlir"):
            results = run_program(compiled(graph, target=TARGETS[name]()), self.arrays)
            yield from zip(self.names, [name] * len(results), results, expected, strict=True)


def differs(found: Array, expected: Array, tolerance: float, signs: bool) -> Array:
    """Where numbers differ; also zeros of different signs, if `signs`."""
    if found.dtype.kind != "f":
        return found != expected
    with np.errstate(all="ignore"):
        other = ~np.isclose(found, expected, tolerance, tolerance * 1e-3, equal_nan=True)
    zeros = (found == 0) & (expected == 0) & signs
    return other | (zeros & (np.signbit(found) != np.signbit(expected)))


@pytest.mark.parametrize("dtype", DType, ids=lambda d: d.value)
def test_every_operation_on_difficult_numbers(dtype: DType) -> None:
    """All pairs of numbers, in one program for each dtype."""
    cases = Cases()
    values = numbers(dtype)
    for op in ScalarOp:
        operands = [DType.BOOL, dtype, dtype] if op is ScalarOp.SELECT else [dtype] * op.arity
        try:
            result_dtype(op, *operands)
        except TypeError:
            continue
        pairs = np.array(list(itertools.product(values, repeat=min(op.arity, 2))), values.dtype)
        columns = [np.arange(len(pairs)) % 3 == 0] * (op is ScalarOp.SELECT) + list(pairs.T)
        inputs = [cases.input(c, kind) for c, kind in zip(columns, operands, strict=True)]
        cases.output((op, columns), cases.b.add_node(Pointwise(op), *inputs))
    assert len(cases.outputs) > 20
    wrong: list[str] = []
    for (op, columns), target, found, expected in cases.compared():
        limit = TOLERANCES.get(dtype, 0) * LARGER.get(op, 1)
        for k in np.flatnonzero(differs(found, expected, limit, op not in ZEROS))[:3]:
            wrong.append(f"{target}: {op.value}{[c[k] for c in columns]} is {found[k]}, not {expected[k]}")
    assert wrong == []


@pytest.mark.parametrize("cpu", [HOST.target_for(2), AVX2], ids=lambda cpu: cpu.cpu)
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_each_result_is_rounded(dtype: DType, cpu: CpuTarget) -> None:
    """Also on processors without instructions for the dtype."""
    b = CoreBuilder("sums")
    numbers = np.arange(64, dtype=np.float32) * np.float32(2.0**-11)
    x = b.cast(b.input(TensorType((64,), DType.F32)), dtype)
    least = b.sub(b.add(x, 1.0), 1.0)
    graph = b.build([b.cast(b.mul(b.neg(least), least), DType.F32), b.cast(b.exp(x), DType.F32)])
    product, power = run_program(compiled(graph, target=MlirTarget.of(cpu)), [numbers])
    expected = evaluate_graph(graph, [numbers])
    assert np.array_equal(product, expected[0]) and len(np.unique(product)) < 40
    np.testing.assert_allclose(power, expected[1], TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", DType, ids=lambda d: d.value)
def test_conversions_are_exact(dtype: DType) -> None:
    """Also of numbers outside of the range of the result, and to and from numbers of 16 bits."""
    cases = Cases()
    values = numbers(dtype, (*FLOATS, *CONVERTED))
    for result in DType:
        cases.output(result, cases.b.cast(cases.input(values, dtype), result))
    for result, target, found, expected in cases.compared():
        wrong = differs(found, expected, 0, signs=True)
        assert not wrong.any(), f"{target}: {values[wrong]} are {found[wrong]} as {result}, not {expected[wrong]}"
