"""Convolutions and their gradients on the Triton target: they compile, and their TTIR agrees with the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from contraction_kernels import ConvSpec, conv_kernel, gemm_kernel
from contractions import conv_reference
from mxforge.codegen.llvm.target import AVX2
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.dialects.core.gradient import gradient_graph
from mxforge.ir.graph import Value
from mxforge.ir.kernel import Store
from mxforge.ir.types import DType
from mxforge.ir.verifier import verify_kernel
from mxforge.passes.expand import Expand
from mxforge.passes.manager import Context, Options
from rewriting import random_inputs, tensor
from support.triton_kernels import emitted, memory_dtype, relative_error, run_graph, run_source

Build = Callable[[CoreBuilder], Value]

CONVOLUTIONS: dict[str, Build] = {
    "padded": lambda b: b.maximum(
        b.conv(b.input(tensor(2, 5, 9, 8)), b.input(tensor(7, 5, 3, 3)), (1, 1), ((1, 1),) * 2), 0.0
    ),
    "strided and dilated": lambda b: b.conv(
        b.input(tensor(2, 4, 11, 10)), b.input(tensor(6, 4, 3, 2)), (2, 1), ((1, 0), (0, 2)), rhs_dilation=(1, 3)
    ),
    "groups": lambda b: b.conv(
        b.input(tensor(2, 6, 7, 7)), b.input(tensor(9, 2, 3, 3)), (1, 1), ((1, 1),) * 2, groups=3
    ),
    "cropped": lambda b: b.conv(b.input(tensor(1, 4, 9)), b.input(tensor(5, 4, 3)), (1,), ((-2, -1),)),
}


@pytest.mark.parametrize("wrt", [(), (0,), (1,)], ids=["forward", "to data", "to weights"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str, wrt: tuple[int, ...]) -> None:
    b = CoreBuilder("net")
    graph = b.build([CONVOLUTIONS[name](b)])
    graph = gradient_graph(graph, wrt, [0]) if wrt else graph
    graph = Expand().run(graph, Context(AVX2, Options()))
    inputs = random_inputs(graph)
    (found,), _ = run_graph(graph, inputs)
    assert relative_error(found, evaluate_graph(graph, inputs)[0]) <= 2e-6


@pytest.mark.parametrize("name", ["dense", "convolution"])
def test_rounded_weights(name: str) -> None:
    """Kernels round float32 weights as they load them."""
    b = CoreBuilder("net")
    if name == "dense":
        x, w = b.input(tensor(17, 40)), b.input(tensor(33, 40))
        result = b.dot(x, b.cast(w, DType.BF16), (), (), (1,), (1,), DType.F32)
    else:
        x, w = b.input(tensor(2, 5, 9, 8)), b.input(tensor(7, 5, 3, 3))
        result = b.conv(x, b.cast(w, DType.BF16), (1, 1), ((1, 1),) * 2, accumulator=DType.F32)
    graph = b.build([result])
    inputs = random_inputs(graph)
    (found,), kernels = run_graph(graph, inputs)
    assert len(kernels) == 1
    assert relative_error(found, evaluate_graph(graph, inputs)[0]) <= 2e-6


def test_a_convolution_of_doubles_uses_a_plain_sum() -> None:
    spec = ConvSpec((1, 1), (1, 0), (1, 1), interior=(2, 1))
    kernel = conv_kernel((1, 3, 4, 5), (4, 3, 3, 2), spec, DType.F64)
    x, w = (a.astype("float64") for a in random_inputs(_inputs((1, 3, 4, 5), (4, 3, 3, 2))))
    (found,) = run_source(emitted(kernel), kernel, [x, w])
    assert relative_error(found, conv_reference(x, w, spec)) <= 1e-14


def test_a_product_of_integers_uses_a_plain_sum() -> None:
    kernel = gemm_kernel((2,), 5, 7, 40, DType.I32)
    a, b = (x.astype("int32") for x in random_inputs(_inputs((2, 5, 40), (2, 40, 7), dtype=DType.I32)))
    (found,) = run_source(emitted(kernel), kernel, [a, b])
    assert (found == a @ b).all()


def _inputs(*shapes: tuple[int, ...], dtype: DType = DType.F32):
    b = CoreBuilder("inputs")
    return b.build([b.input(tensor(*shape, dtype=dtype)) for shape in shapes])


BYTES = [(DType.I8, DType.I8), (DType.U8, DType.I8), (DType.I8, DType.U8), (DType.U8, DType.U8)]


@pytest.mark.parametrize("dtypes", BYTES, ids=lambda d: f"{d[0].value} {d[1].value}")
@pytest.mark.parametrize("form", ["product", "convolution"])
def test_bytes_are_summed_in_int32(form: str, dtypes: tuple[DType, DType]) -> None:
    """Exact over the whole range of bytes, also at the edges of tiles and of the input."""
    b = CoreBuilder("bytes")
    if form == "product":
        x, y = b.input(tensor(2, 37, 150, dtype=dtypes[0])), b.input(tensor(2, 150, 21, dtype=dtypes[1]))
        graph = b.build([b.matmul(x, y, DType.I32)])
    else:
        x, y = b.input(tensor(2, 5, 9, 8, dtype=dtypes[0])), b.input(tensor(7, 5, 3, 3, dtype=dtypes[1]))
        graph = b.build([b.conv(x, y, (2, 1), ((1, 1), (0, 2)), accumulator=DType.I32)])
    rng = np.random.default_rng(0)
    inputs = [rng.integers(0, 256, v.type.shape).astype(np.uint8).view(v.type.dtype.numpy) for v in graph.inputs]
    (found,), (compiled,) = run_graph(graph, inputs)
    np.testing.assert_array_equal(found, evaluate_graph(graph, inputs)[0])
    assert "mma" in compiled.ptx


@pytest.mark.parametrize("dtypes", [(DType.BF16, DType.BF16), (DType.F16, DType.F16), (DType.F16, DType.F32)])
def test_short_floats_are_summed_and_stored_in_float32(dtypes: tuple[DType, DType]) -> None:
    kernel = gemm_kernel((), 37, 21, 90, dtypes[0])
    (stage,) = kernel.stages
    assert isinstance(stage, Store)
    value = replace(stage.value, accumulator=DType.F32, dtype=DType.F32)  # type: ignore[call-arg]
    a, b, y = kernel.buffers
    buffers = (a, replace(b, dtype=dtypes[1]), replace(y, dtype=DType.F32))
    kernel = replace(kernel, buffers=buffers, stages=(replace(stage, value=value),))
    verify_kernel(kernel)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s).astype(memory_dtype(d)) for s, d in zip(((37, 90), (90, 21)), dtypes, strict=True)]
    (found,) = run_source(emitted(kernel), kernel, inputs)
    assert found.dtype == np.float32
    assert relative_error(found, inputs[0].astype(np.float64) @ inputs[1].astype(np.float64)) <= 2e-6
