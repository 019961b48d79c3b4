"""Products and convolutions with an accumulation dtype other than the operands' dtype, on both targets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from compiled import check
from contraction_kernels import region_contractions
from mxforge.codegen.llvm.contract.emit import schedule_contraction
from mxforge.codegen.llvm.schedule.describe import ContractionError
from mxforge.codegen.llvm.target import AVX2
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.dialects.core.gradient import gradient_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.types import DType
from mxforge.passes.manager import Options
from rewriting import tensor

Array = np.ndarray
F16, BF16, F32, F64 = DType.F16, DType.BF16, DType.F32, DType.F64
I8, U8, I16, I32, I64 = DType.I8, DType.U8, DType.I16, DType.I32, DType.I64
DTYPES = [
    (I8, I8, I32),
    (U8, I8, I32),
    (I8, U8, I32),
    (U8, U8, I32),
    (F16, F16, F32),
    (BF16, BF16, F32),
    (F16, F32, F32),
    (F32, BF16, F32),
    (F32, F32, F64),
    (I16, I16, I32),
    (U8, U8, I64),
]
PLAIN = [(I16, I16, I32), (U8, U8, I64)]
"""Dtypes (lhs, rhs, accumulator) without a micro-kernel."""


def made(b: CoreBuilder, dtype: DType, *shape: int) -> Value:
    """An input; a bfloat16 input is rounded from float32, since NumPy has no bfloat16."""
    return b.cast(b.input(tensor(*shape, dtype=F32)), BF16) if dtype is BF16 else b.input(tensor(*shape, dtype=dtype))


def inputs(graph: Graph) -> list[Array]:
    """Random inputs: integers over the whole range of bytes, and normally distributed floats."""
    rng = np.random.default_rng(0)
    found: list[Array] = []
    for value in graph.inputs:
        dtype = value.type.dtype.numpy
        if value.type.dtype.is_float:
            found.append(rng.standard_normal(value.type.shape).astype(dtype))
        else:
            info = np.iinfo(dtype)
            found.append(rng.integers(info.min, info.max, value.type.shape, endpoint=True).astype(dtype))
    return found


Build = Callable[[CoreBuilder, DType, DType, DType], Value]
FORMS: dict[str, Build] = {
    "product": lambda b, x, y, a: b.matmul(made(b, x, 37, 70), made(b, y, 70, 45), a),
    "few rows": lambda b, x, y, a: b.dot(made(b, x, 2, 70), made(b, y, 33, 70), [], [], [1], [1], a),
    "batched": lambda b, x, y, a: b.matmul(made(b, x, 3, 5, 33), made(b, y, 3, 33, 18), a),
    "columns of the left": lambda b, x, y, a: b.transpose(b.matmul(made(b, x, 6, 20), made(b, y, 20, 9), a)),
    "epilogue": lambda b, x, y, a: b.maximum(b.add(b.matmul(made(b, x, 20, 30), made(b, y, 30, 17), a), 3), 0),
    "convolution": lambda b, x, y, a: b.conv(
        made(b, x, 2, 16, 9, 8), made(b, y, 24, 16, 3, 3), (1, 1), ((1, 1), (0, 2)), accumulator=a
    ),
    "image": lambda b, x, y, a: b.conv(
        made(b, x, 2, 3, 11, 11), made(b, y, 10, 3, 3, 3), (2, 2), ((1, 1),) * 2, accumulator=a
    ),
    "groups": lambda b, x, y, a: b.conv(
        made(b, x, 1, 12, 7, 7), made(b, y, 9, 4, 3, 3), (1, 1), ((1, 1),) * 2, groups=3, accumulator=a
    ),
    "depthwise": lambda b, x, y, a: b.conv(
        made(b, x, 1, 20, 9, 9), made(b, y, 20, 1, 3, 3), (1, 1), ((1, 1),) * 2, groups=20, accumulator=a
    ),
    "interior zeros": lambda b, x, y, a: b.conv(
        made(b, x, 1, 8, 5, 4), made(b, y, 6, 8, 3, 3), (1, 1), ((2, 1), (1, 2)), (2, 3), accumulator=a
    ),
    "Winograd's shape": lambda b, x, y, a: b.conv(
        made(b, x, 1, 32, 12, 12), made(b, y, 32, 32, 3, 3), (1, 1), ((1, 1),) * 2, accumulator=a
    ),
}


def tolerance(accumulator: DType) -> float:
    return {F32: 2e-6, F64: 1e-13}.get(accumulator, 0.0)


def built(form: str, dtypes: tuple[DType, DType, DType]) -> Graph:
    b = CoreBuilder("sums")
    return b.build([FORMS[form](b, *dtypes)])


@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda d: " ".join(x.value for x in d))
@pytest.mark.parametrize("form", FORMS)
def test_accumulation_on_the_cpu(form: str, dtypes: tuple[DType, DType, DType]) -> None:
    graph = built(form, dtypes)
    check(graph, *inputs(graph), tolerance=tolerance(dtypes[2]), options=Options(static_shape=True))


@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda d: " ".join(x.value for x in d))
@pytest.mark.parametrize("form", ["product", "few rows", "convolution", "depthwise"])
def test_bytes_and_floats_have_schedules(form: str, dtypes: tuple[DType, DType, DType]) -> None:
    (kernel,) = region_contractions(built(form, dtypes))
    if dtypes in PLAIN:
        with pytest.raises(ContractionError, match=f"no schedule supports products of .* in {dtypes[2].value}"):
            schedule_contraction(kernel, AVX2)
    else:
        schedule_contraction(kernel, AVX2)


def test_long_sums_of_bytes_do_not_wrap() -> None:
    b = CoreBuilder("long")
    x, y = b.input(tensor(5, 5000, dtype=U8)), b.input(tensor(5000, 9, dtype=I8))
    graph = b.build([b.matmul(x, y, I32)])
    check(graph, np.full((5, 5000), 255, np.uint8), np.full((5000, 9), -128, np.int8), tolerance=0.0)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=lambda d: d.value)
@pytest.mark.parametrize("form", ["product", "batched", "convolution", "groups"])
def test_gradients_of_wide_sums(form: str, dtype: DType) -> None:
    """Gradients equal those of the widened operands, rounded once to the operands' dtypes."""
    graph = built(form, (dtype, dtype, F32))
    wide = CoreBuilder("wide")
    operands = [wide.input(v.type) for v in graph.inputs]
    op = next(n.op for n in graph.nodes if n.op.name in ("core.dot", "core.conv"))
    rounded = [wide.cast(wide.cast(v, dtype), F32) for v in operands]
    expected = gradient_graph(wide.build([wide.add_node(op, *rounded)]), [0, 1], [0])
    found = gradient_graph(graph, [0, 1], [0])
    assert found.output_types() == graph.input_types()
    arrays = [*inputs(graph), np.random.default_rng(1).standard_normal(graph.outputs[0].type.shape).astype(np.float32)]
    for x, y in zip(evaluate_graph(found, arrays), evaluate_graph(expected, arrays), strict=True):
        np.testing.assert_array_equal(x, y)
    check(found, *arrays, tolerance=2.0**-7)
