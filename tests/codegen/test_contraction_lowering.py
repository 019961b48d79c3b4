"""Convolutions, their gradients and products are one typed node of a kernel, with schedules on both targets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from compiled import check
from contraction_kernels import region_contractions
from mxforge.codegen.llvm.contract.emit import schedule_contraction
from mxforge.codegen.llvm.target import AVX2
from mxforge.codegen.lower import lower_region
from mxforge.codegen.triton.schedule import schedule_triton
from mxforge.codegen.triton.target import SM90
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.dialects.core.gradient import gradient_graph
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import Contract, ContractionKind, Kernel, contracts
from mxforge.ir.types import DType
from mxforge.ir.verifier import verify_kernel
from rewriting import random_inputs, tensor

Build = Callable[[CoreBuilder], Value]


def gradients(build: Build, wrt: tuple[int, ...]) -> Graph:
    b = CoreBuilder("net")
    return gradient_graph(b.build([build(b)]), wrt, [0])


def node_of(kernel: Kernel) -> Contract:
    (node,) = contracts(kernel)
    return node


def strided(b: CoreBuilder) -> Value:
    x, w = b.input(tensor(2, 8, 11, 10)), b.input(tensor(12, 4, 3, 3))
    return b.conv(x, w, (2, 1), ((1, 1), (0, 2)), rhs_dilation=(1, 2), groups=2)


def test_the_gradient_to_the_data_reads_between_zeros() -> None:
    (kernel,) = region_contractions(gradients(strided, (0,)))
    node = node_of(kernel)
    assert node.kind is ContractionKind.CONVOLUTION
    assert [(w.stride, w.dilation, w.low, w.interior) for w in node.windows] == [(1, 1, 1, 2), (1, 2, 4, 1)]
    assert [kernel.axis(a).extent for a in node.inner] == [6, 3, 3]  # filters of a group, and taps


def test_the_gradient_to_the_weights_reduces_over_images_and_positions() -> None:
    (kernel,) = region_contractions(gradients(strided, (1,)))
    node = node_of(kernel)
    assert node.kind is ContractionKind.WEIGHT_GRADIENT
    assert [(w.stride, w.dilation, w.low) for w in node.windows] == [(2, 1, 1), (1, 2, 0)]
    assert [kernel.axis(a).extent for a in node.inner] == [2, 6, 8]  # images and positions of the output
    assert [kernel.axis(a).extent for a in node.rows] == [4, 3, 3]  # channels of a group, and taps


CONVOLUTIONS: dict[str, Build] = {
    "forward": strided,
    "one axis": lambda b: b.conv(b.input(tensor(2, 4, 9)), b.input(tensor(8, 4, 3)), (2,), ((1, 1),)),
    "three axes": lambda b: b.conv(
        b.input(tensor(1, 4, 4, 5, 6)), b.input(tensor(8, 4, 3, 3, 3)), (1, 1, 1), ((1, 1),) * 3
    ),
    "depthwise": lambda b: b.conv(
        b.input(tensor(2, 16, 9, 9)), b.input(tensor(16, 1, 3, 3)), (2, 2), ((1, 1),) * 2, groups=16
    ),
    "one output channel, one tap": lambda b: b.conv(
        b.input(tensor(2, 8, 5, 5)), b.input(tensor(1, 8, 1, 3)), (1, 1), ((0, 0), (1, 1))
    ),
    "transposed": lambda b: b.conv(
        b.input(tensor(2, 8, 5, 4)), b.input(tensor(12, 4, 4, 3)), (1, 1), ((2, 2), (1, 1)), (2, 2), groups=2
    ),
    "groups of the batch": lambda b: b.conv(
        b.input(tensor(4, 8, 5, 4)), b.input(tensor(12, 8, 3, 3)), (1, 2), ((1, 1), (1, 1)), batch_groups=2
    ),
}


@pytest.mark.parametrize("wrt", [(), (0,), (1,)], ids=["forward", "to data", "to weights"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_their_gradients_have_schedules(name: str, wrt: tuple[int, ...]) -> None:
    b = CoreBuilder("net")
    graph = gradients(CONVOLUTIONS[name], wrt) if wrt else b.build([CONVOLUTIONS[name](b)])
    for kernel in region_contractions(graph):
        schedule_contraction(kernel, AVX2)
        assert schedule_triton(kernel, SM90).fallback == ""
    check(graph, *random_inputs(graph))


PRODUCTS: dict[str, Build] = {
    "product": lambda b: b.matmul(b.input(tensor(5, 7)), b.input(tensor(7, 9))),
    "batched product": lambda b: b.matmul(b.input(tensor(2, 3, 5, 7)), b.input(tensor(2, 3, 7, 9))),
    "two reduced axes": lambda b: b.dot(b.input(tensor(5, 7, 4)), b.input(tensor(7, 9, 4)), [], [], [1, 2], [0, 2]),
}


@pytest.mark.parametrize("wrt", [(), (0,), (1,)], ids=["forward", "to the left", "to the right"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_and_their_gradients_have_schedules(name: str, wrt: tuple[int, ...]) -> None:
    b = CoreBuilder("net")
    graph = gradients(PRODUCTS[name], wrt) if wrt else b.build([PRODUCTS[name](b)])
    (kernel,) = region_contractions(graph)
    node = node_of(kernel)
    assert node.kind is ContractionKind.PRODUCT
    assert (node.accumulator, node.dtype) == (DType.F32, DType.F32)
    schedule_contraction(kernel, AVX2)
    assert schedule_triton(kernel, SM90).fallback == ""


def test_a_contraction_read_through_a_unit_reshape_is_one_contraction() -> None:
    """It was two contractions, for which there is no schedule."""
    b = CoreBuilder("net")
    y = b.dot(b.input(tensor(1, 7)), b.input(tensor(7, 9)), [], [], [1], [0])
    again = b.broadcast(b.reshape(y, (9,)), (1, 9), (1,))
    kernel = lower_region(Fused(b.build([b.add(y, again)]), "contract"))
    verify_kernel(kernel)
    assert len(contracts(kernel)) == 1
    graph = b.build([b.add(y, again)])
    check(graph, *random_inputs(graph))
