"""Upstream MLIR, which knows our dialects only from the IRDL, accepts what we print and rejects broken text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernels import PROGRAM, SOFTMAX
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.dialects.mx.operator import all_operators, lookup
from mxforge.ir.graph import GraphBuilder
from mxforge.ir.irdl import attributes_of, irdl_module
from mxforge.ir.kernel_printer import print_kernel
from mxforge.ir.printer import print_graph
from mxforge.ir.program_printer import print_program
from mxforge.ir.types import DType, TensorType
from printed_graphs import every_primitive, random_graph

mlir = pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
irdl = pytest.importorskip("torch_mlir.dialects.irdl")


@pytest.fixture
def context() -> Iterator[object]:
    with mlir.Context() as c, mlir.Location.unknown():
        assert not c.allow_unregistered_dialects
        yield c


def check(text: str) -> None:
    """MLIRError unless upstream MLIR parses and verifies `text`."""
    irdl.load_dialects(mlir.Module.parse(irdl_module(text)))
    assert mlir.Module.parse(text).operation.verify()


def test_every_primitive(context: object) -> None:
    check(print_graph(every_primitive()))


def test_random_graphs(context: object) -> None:
    texts = [print_graph(random_graph(seed)) for seed in range(40)]
    irdl.load_dialects(mlir.Module.parse(irdl_module(*texts)))
    for text in texts:
        assert mlir.Module.parse(text).operation.verify()


def test_mx_operators(context: object) -> None:
    b = GraphBuilder()
    x = b.input(TensorType((2, 3, 8, 8), DType.F32), "data")
    w = b.input(TensorType((4, 3, 3, 3), DType.F32), "weight", parameter=True)
    conv = lookup("Convolution").parse({"kernel": "(3, 3)", "num_filter": "4", "no_bias": "True"})
    y = b.add_node(conv, x, w, name="conv0", location="net.py:3")
    z = b.add_node(lookup("_plus_scalar").parse({"scalar": "1.5"}), y)
    check(print_graph(b.build([b.add_node(lookup("Concat").parse({"num_args": "2", "dim": "1"}), y, z)])))


def test_every_mx_operator_is_declared(context: object) -> None:
    assert irdl.load_dialects(mlir.Module.parse(irdl_module())) is None
    for kind in all_operators():
        assert all(attributes_of(kind).values()), kind.name


def test_kernels_and_programs(context: object) -> None:
    irdl.load_dialects(mlir.Module.parse(irdl_module()))
    for text in (print_kernel(SOFTMAX), print_program(PROGRAM)):
        assert mlir.Module.parse(text).operation.verify()


def small() -> str:
    b = CoreBuilder("small")
    x = b.input(TensorType((2, 3), DType.F32), "x")
    return print_graph(b.build([b.reshape(b.exp(x), (6,))]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("core.reshape", "core.reshap", "unregistered operation"),
        ("core.reshape", "other.reshape", "unregistered dialect"),
        ("array<i64: 6>", '"6"', "expected base attribute 'builtin.dense_array'"),
        ("{shape = array<i64: 6>}", "", 'attribute "shape" is expected'),
        ('"core.reshape"(%0)', '"core.reshape"(%7)', "undeclared SSA value"),
        ("array<i64: 6>} : (tensor<2x3xf32>)", "array<i64: 6>} : (tensor<7xf32>)", "different type"),
        ("(%0) {shape", "(%0, %0) {shape", "expected 2 operand types"),
        ("-> tensor<6xf32>\n", "-> f32\n", "tensor"),
    ],
)
def test_broken_text_is_rejected(context: object, old: str, new: str, message: str) -> None:
    text = small()
    assert old in text
    irdl.load_dialects(mlir.Module.parse(irdl_module(text)))
    with pytest.raises(mlir.MLIRError, match=message):
        mlir.Module.parse(text.replace(old, new, 1))
