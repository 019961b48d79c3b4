"""The verifiers accept well-formed graphs, kernels and programs, and name the problem of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kernels import EXPONENT, PROGRAM, ROW_AXIS, SOFTMAX, K, X
from mxforge.ir.dialects.core import CoreBuilder, Fused
from mxforge.ir.graph import Graph, GraphError, Node, RandomKey, Value
from mxforge.ir.kernel import (
    Axis,
    AxisKind,
    AxisValue,
    Const,
    Load,
    Local,
    Reduce,
    ReduceOp,
    Ref,
    Scalar,
    Store,
    affine,
)
from mxforge.ir.program import Copy, Launch, Loop, Place, Program, Space
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, Layout, TensorType
from mxforge.ir.verifier import verify_graph, verify_kernel, verify_program
from printed_graphs import every_primitive, random_graph

VECTOR = TensorType((4,), DType.F32)


def test_good_graphs() -> None:
    verify_graph(every_primitive())
    for seed in range(30):
        verify_graph(random_graph(seed))


def chain() -> Graph:
    b = CoreBuilder("chain")
    x = b.input(VECTOR, "x")
    y = b.node(b.exp(x).node.op, x, name="second", location="net.py:2").outputs[0]  # type: ignore[union-attr]
    return b.build([b.add(x, y)])


def _changed(change: Callable[[Graph], dict[str, Any]]) -> Graph:
    g = chain()
    return replace(g, **change(g))


def _retyped() -> Graph:
    g = chain()
    wrong = Node(g.nodes[1].op, g.nodes[1].inputs, [TensorType((5,), DType.F32)], "second", "net.py:2")
    return replace(g, nodes=(g.nodes[0], wrong), outputs=wrong.outputs)


def _leaking_region() -> Graph:
    b = CoreBuilder("outer")
    x = b.input(VECTOR)
    inner = CoreBuilder("inner")
    y = inner.input(VECTOR)
    body = replace(inner.build([inner.add(y, y)]), inputs=(Value(VECTOR, None, 0),))
    return b.build(b.node(Fused(body, "pointwise"), x, name="region").outputs)


def _with_layout(layout: Layout) -> Graph:
    b = CoreBuilder()
    return b.build([b.input(TensorType((1, 8, 4), DType.F32, layout))])


BROKEN_GRAPHS: list[tuple[str, Callable[[], Graph]]] = [
    (
        "operand 1 .* is not defined before its use",
        lambda: _changed(lambda g: {"nodes": g.nodes[::-1]}),
    ),
    (r"core.pointwise 'second' at net.py:2.*result 0 has type tensor<5xf32>, its op infers tensor<4xf32>", _retyped),
    ("output 0 .* is not defined", lambda: replace(chain(), nodes=())),
    ("is listed twice", lambda: _changed(lambda g: {"nodes": (*g.nodes, g.nodes[0])})),
    ("is listed twice as an input", lambda: _changed(lambda g: {"inputs": g.inputs * 2})),
    ("input 1 is a result of", lambda: _changed(lambda g: {"inputs": (*g.inputs, g.outputs[0])})),
    ("parameter 3 is out of range", lambda: replace(chain(), parameters=frozenset({3}))),
    ("update 1 is out of range", lambda: replace(chain(), updates=(1,))),
    ("private outputs .1. are not among the outputs", lambda: replace(chain(), private=frozenset({1}))),
    ("need distinct inputs", lambda: replace(chain(), updates=(0, 0))),
    ("in core.fused 'region'.*graph 'inner'.*operand 0", _leaking_region),
    ("2 spatial axes does not fit", lambda: _with_layout(Layout(8, ((0, 0), (0, 0))))),
    ("non-negative halo", lambda: _with_layout(Layout(8, ((0, -1),)))),
]


@pytest.mark.parametrize(("message", "build"), BROKEN_GRAPHS)
def test_broken_graphs(message: str, build: Callable[[], Graph]) -> None:
    with pytest.raises(GraphError, match=f"(?s){message}"):
        verify_graph(build())


def test_good_kernel() -> None:
    verify_kernel(SOFTMAX)


ROW = Store("y", (ROW_AXIS, affine(offset=0)), Const(0.0, DType.F32))
OFF = (ROW_AXIS, affine(("k", 1), offset=1))

BROKEN_STAGES = [
    ("local 'm' is read before it is defined", Store("y", (ROW_AXIS, K), EXPONENT)),
    ("axis 'k' is used outside its scope", replace(ROW, value=X)),
    ("the axis 'k' is bound twice", replace(ROW, value=Reduce(ReduceOp.ADD, ("k",), Reduce(ReduceOp.ADD, ("k",), X)))),
    ("the parallel axis 'i' is reduced", replace(ROW, value=Reduce(ReduceOp.ADD, ("i",), X))),
    ("axis 'q' is not declared", replace(ROW, value=AxisValue("q"))),
    ("buffer 'u' is not declared", replace(ROW, value=Load("u", (ROW_AXIS,)))),
    ("buffer 'x' of rank 2 is indexed with 1", replace(ROW, value=Load("x", (ROW_AXIS,)))),
    ("buffer 'x' is not declared as written", replace(ROW, buffer="x")),
    ("from 1 to 8, the extent is 8", Store("y", (ROW_AXIS, K), Load("x", OFF))),
    ("from 8 to 8, the extent is 8", replace(ROW, index=(ROW_AXIS, affine(offset=8)))),
    ("add takes 2 operands, got 1", replace(ROW, value=Scalar(ScalarOp.ADD, (AxisValue("i"),)))),
]


@pytest.mark.parametrize(("message", "stage"), BROKEN_STAGES)
def test_broken_stages(message: str, stage: Store) -> None:
    with pytest.raises(GraphError, match=f"kernel 'softmax', in stage 0 .*{message}"):
        verify_kernel(replace(SOFTMAX, stages=(stage,)))


def test_load_with_other_may_leave_the_buffer() -> None:
    padded = Load("x", OFF, Const(0.0, DType.F32))
    verify_kernel(replace(SOFTMAX, stages=(Store("y", (ROW_AXIS, K), padded),)))


def test_locals_keep_their_axes() -> None:
    rows = Local("e", ("i", "k"), X)
    verify_kernel(replace(SOFTMAX, stages=(rows, Store("y", (ROW_AXIS, K), Ref("e")))))
    with pytest.raises(GraphError, match="read where its axes \\['k'\\] are not bound"):
        verify_kernel(replace(SOFTMAX, stages=(rows, replace(ROW, value=Ref("e")))))


def test_kernel_declarations() -> None:
    with pytest.raises(GraphError, match="extent 'm', which the kernel does not declare"):
        verify_kernel(replace(SOFTMAX, axes=(Axis("i", "m"), Axis("k", 8, AxisKind.REDUCE))))
    with pytest.raises(GraphError, match="duplicate axis name"):
        verify_kernel(replace(SOFTMAX, axes=(*SOFTMAX.axes, Axis("i", 3))))
    with pytest.raises(GraphError, match="axis 'j' is not used"):
        verify_kernel(replace(SOFTMAX, axes=(*SOFTMAX.axes, Axis("j", 3))))


def launching(*arguments: Place | int, symbol: str = "k", count: int = 1) -> Program:
    return replace(PROGRAM, steps=(Launch(symbol, arguments, count, 1, "row", (0,)),))


BROKEN_PROGRAMS = [
    ("no code defines the symbol", launching(symbol="unknown")),
    (r"launch of 'k' \(relu\): input 2 does not exist", launching(Place(Space.INPUT, 2))),
    (r"arena\+129 is outside its space of 128 bytes", launching(Place(Space.ARENA, 0, 129))),
    (r"output1\+17 is outside its space of 16 bytes", launching(Place(Space.OUTPUT, 1, 17))),
    ("invalid count", launching(count=-1)),
    ("output 2 does not exist", replace(PROGRAM, steps=(Copy(Place(Space.OUTPUT, 2), Place(Space.INPUT), 16),))),
    (
        r"24 bytes from input1\+0 on are outside its space",
        replace(PROGRAM, steps=(Copy(Place(Space.OUTPUT), Place(Space.INPUT, 1), 24),)),
    ),
    ("neither an output nor state", replace(PROGRAM, steps=(Copy(Place(Space.INPUT), Place(Space.OUTPUT), 8),))),
    ("state: .2. are out of range", replace(PROGRAM, state=(2,))),
    ("the random key: .2. are out of range", replace(PROGRAM, random=RandomKey(2, 1))),
    ("is not a parameter, but the step is in", replace(PROGRAM, parameters=frozenset[int]())),
    ("are out of range", replace(PROGRAM, parameters=frozenset({1, 5}))),
    (r"groups \(3,\) do not divide", replace(PROGRAM, groups=(3,))),
]


def test_good_program() -> None:
    verify_program(PROGRAM, {"k", "pack"})
    verify_program(PROGRAM)
    verify_program(launching(Place(Space.ARENA, 0, 129), count=0))  # a launch of no units accesses nothing
    outside = Launch("k", (Place(Space.ARENA, 0, 129, (8,)),), 1, 1)
    verify_program(replace(PROGRAM, steps=(Loop((outside,), 0),)))
    with pytest.raises(GraphError, match="outside its space"):
        verify_program(replace(PROGRAM, steps=(Loop((outside,), 1),)))


@pytest.mark.parametrize(("message", "program"), BROKEN_PROGRAMS)
def test_broken_programs(message: str, program: Program) -> None:
    with pytest.raises(GraphError, match=message):
        verify_program(program, {"k", "pack"})
