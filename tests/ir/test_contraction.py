"""The typed contraction of kernels: its verifier, its hash, and its text, which upstream MLIR reads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contraction_kernels import ConvSpec, conv_kernel, gemm_kernel, weight_gradient_kernel
from mxforge.ir.graph import GraphError
from mxforge.ir.hashing import structural_hash
from mxforge.ir.irdl import irdl_module
from mxforge.ir.kernel import Affine, Const, Contract, ContractionKind, Kernel, Load, Store, affine, contracts
from mxforge.ir.kernel_printer import print_kernel
from mxforge.ir.types import DType
from mxforge.ir.verifier import verify_kernel

CONV = conv_kernel((2, 6, 9, 8), (4, 3, 3, 2), ConvSpec((2, 1), (1, 0), (1, 1), (1, 2), (1, 3), groups=2))
GRADIENT = weight_gradient_kernel((2, 6, 9, 8), 4, (3, 2), ConvSpec((2, 1), (1, 0), (1, 1), (1, 2), groups=2))
GEMM = gemm_kernel((3,), 5, 7, 4)


def node_of(kernel: Kernel) -> Contract:
    (found,) = contracts(kernel)
    return found


def with_node(kernel: Kernel, **changes: object) -> Kernel:
    """The kernel with other fields of its contraction."""
    (store,) = kernel.stages
    assert isinstance(store, Store)
    return replace(kernel, stages=(replace(store, value=replace(node_of(kernel), **changes)),))  # type: ignore[arg-type]


def test_attributes_are_those_of_the_operation() -> None:
    node = node_of(CONV)
    assert node.kind is ContractionKind.CONVOLUTION
    assert (node.batch, node.rows, node.columns) == (("g",), ("i0", "i2", "i3"), ("i1",))
    assert node.inner == ("r0", "r1", "r2")
    found = [(w.stride, w.dilation, w.low, w.interior, w.extent) for w in node.windows]
    assert found == [(2, 1, 1, 1, 9), (1, 2, 0, 3, 8)]
    assert node_of(GEMM).kind is ContractionKind.PRODUCT
    gradient = node_of(GRADIENT)
    assert gradient.kind is ContractionKind.WEIGHT_GRADIENT
    assert (gradient.batch, gradient.rows, gradient.columns) == (("g",), ("i1", "i2", "i3"), ("i0",))
    assert gradient.inner == ("r0", "r1", "r2")


@pytest.mark.parametrize("kernel", [CONV, GRADIENT, GEMM], ids=["convolution", "weight gradient", "product"])
def test_good_kernels(kernel: Kernel) -> None:
    verify_kernel(kernel)


WINDOW = node_of(CONV).windows[0]
BAD = {
    "two roles": (GEMM, {"rows": ("m", "n")}, "an axis has two roles"),
    "a parallel axis is reduced": (GEMM, {"inner": ("k", "b0")}, "the parallel axis 'b0' is reduced"),
    "a row in the right operand": (GEMM, {"rows": ("m", "n"), "columns": ()}, "axis 'n' is used outside its scope"),
    "no role": (GEMM, {"rows": ()}, "axis 'm' is used outside its scope"),
    "a position by its axes": (
        CONV,
        {"lhs": Load("x", (affine(("i0", 1)), affine(("r0", 1)), affine(("i2", 1)), affine(("p1", 1))))},
        "the window 'p0' does not index one dimension",
    ),
    "its own padding": (
        CONV,
        {"lhs": replace(node_of(CONV).lhs, other=Const(0.0, DType.F32))},
        "must be a Load without `other`",
    ),
    "taps that are not reduced": (CONV, {"windows": (replace(WINDOW, tap="i3"),)}, "needs a row and a reduced axis"),
    "taps of a weight gradient that are reduced": (
        GRADIENT,
        {"windows": (replace(node_of(GRADIENT).windows[0], tap="r0"),)},
        "needs a row and a reduced axis",
    ),
    "no step": (CONV, {"windows": (replace(WINDOW, stride=0),)}, "has a step below 1"),
    "the name of an axis": (CONV, {"windows": (replace(WINDOW, name="i0"),)}, "has the name of an axis"),
    "past the input": (
        CONV,
        {"windows": (replace(WINDOW, extent=10), node_of(CONV).windows[1])},
        "the index runs from 0 to 9, the extent is 9",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_contractions_are_named(case: str) -> None:
    kernel, changes, message = BAD[case]
    with pytest.raises(GraphError, match=message):
        verify_kernel(with_node(kernel, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"accumulator": DType.F64},
        {"dtype": DType.F64},
        {"windows": (replace(WINDOW, stride=1), node_of(CONV).windows[1])},
        {"windows": (replace(WINDOW, low=0), node_of(CONV).windows[1])},
        {"windows": node_of(CONV).windows[::-1]},
        {"rows": ("i2", "i0", "i3")},
    ],
    ids=str,
)
def test_attributes_count_in_the_hash(changes: dict[str, object]) -> None:
    assert structural_hash(with_node(CONV, **changes)) != structural_hash(CONV)


def test_names_of_windows_do_not_count() -> None:
    renamed = replace(WINDOW, name="position")
    index = tuple(affine(("position", 1)) if i == affine(("p0", 1)) else i for i in _index())
    kernel = with_node(CONV, lhs=Load("x", index), windows=(renamed, node_of(CONV).windows[1]))
    verify_kernel(kernel)
    assert structural_hash(kernel) == structural_hash(CONV)


def _index() -> tuple[Affine, ...]:
    lhs = node_of(CONV).lhs
    assert isinstance(lhs, Load)
    return tuple(i for i in lhs.index if isinstance(i, Affine))


@pytest.mark.parametrize("kernel", [CONV, GRADIENT, GEMM], ids=["convolution", "weight gradient", "product"])
def test_upstream_reads_the_printed_kernel(kernel: Kernel) -> None:
    mlir = pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is missing")
    irdl = pytest.importorskip("torch_mlir.dialects.irdl")
    text = print_kernel(kernel)
    with mlir.Context(), mlir.Location.unknown():
        irdl.load_dialects(mlir.Module.parse(irdl_module(text)))
        assert mlir.Module.parse(text).operation.verify()
        if kernel is CONV:
            with pytest.raises(mlir.MLIRError):
                mlir.Module.parse(text.replace('"convolution"', '"correlation"'))
