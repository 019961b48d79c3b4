"""Convolutions and their gradients on the second target, compiled and their TTIR compared with the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from contraction_kernels import ConvSpec, conv_kernel, gemm_kernel
from contractions import conv_reference
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.dialects.core.gradient import gradient_graph
from mxforge.ir.graph import Value
from mxforge.ir.target import AVX2
from mxforge.ir.types import DType
from mxforge.passes.expand import Expand
from mxforge.passes.manager import Context, Options
from rewriting import random_inputs, tensor
from support.triton_kernels import emitted, relative_error, run_graph, run_source

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


def test_a_convolution_of_doubles_is_a_plain_sum() -> None:
    spec = ConvSpec((1, 1), (1, 0), (1, 1), interior=(2, 1))
    kernel = conv_kernel((1, 3, 4, 5), (4, 3, 3, 2), spec, DType.F64)
    x, w = (a.astype("float64") for a in random_inputs(_inputs((1, 3, 4, 5), (4, 3, 3, 2))))
    (found,) = run_source(emitted(kernel), kernel, [x, w])
    assert relative_error(found, conv_reference(x, w, spec)) <= 1e-14


def test_a_product_of_integers_is_a_plain_sum() -> None:
    kernel = gemm_kernel((2,), 5, 7, 40, DType.I32)
    a, b = (x.astype("int32") for x in random_inputs(_inputs((2, 5, 40), (2, 40, 7), dtype=DType.I32)))
    (found,) = run_source(emitted(kernel), kernel, [a, b])
    assert (found == a @ b).all()


def _inputs(*shapes: tuple[int, ...], dtype: DType = DType.F32):
    b = CoreBuilder("inputs")
    return b.build([b.input(tensor(*shape, dtype=dtype)) for shape in shapes])
