"""Every entry of the layout table compiles: kernels read and write the layouts that it lists for each primitive."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from compiled import run_program
from mxforge.codegen.driver import compile_graph
from mxforge.ir.dialects.core import (
    Broadcast,
    Concat,
    Constant,
    Conv,
    ConvWeightGradient,
    CoreBuilder,
    Iota,
    Pad,
    Pointwise,
    Reduce,
    ReduceWindow,
    Relayout,
    Reverse,
    SelectAndScatter,
    Slice,
    Transpose,
    evaluate_graph,
)
from mxforge.ir.graph import Op, Value
from mxforge.ir.scalar import ReduceOp, ScalarOp
from mxforge.ir.types import DType, Layout, TensorType
from mxforge.passes.layout_rules import BLOCKS, LAYOUT_RULES, Choice, choices_of
from mxforge.runtime.host.machine import host_target
from rewriting import in_layout, random_inputs, tensor

NONE = (0, 0)
TARGET = host_target(2)
BLOCK = TARGET.channel_block
SHAPE = (2, 16, 6, 5)
UNIT = (1, 1)
SCALAR = TensorType((), DType.F32)
SAMPLES: list[tuple[Op, tuple[TensorType, ...]]] = [
    (Conv(UNIT, ((1, 1), (1, 1)), UNIT, UNIT), (tensor(*SHAPE), tensor(12, 16, 3, 3))),
    (Conv(UNIT, ((1, 1), (0, 0)), UNIT, UNIT), (tensor(2, 3, 6, 5), tensor(12, 3, 3, 3))),
    *(
        (ConvWeightGradient((3, 3), UNIT, ((1, 1), (0, 0)), UNIT), (tensor(2, c, 6, 5), tensor(2, 12, 6, 3)))
        for c in (16, 3)
    ),
    (Pointwise(ScalarOp.SUB), (tensor(*SHAPE), tensor(*SHAPE))),
    (Pointwise(ScalarOp.GT), (tensor(*SHAPE), tensor(*SHAPE))),
    (ReduceWindow(ReduceOp.MAX, (1, 1, 2, 3), (1, 1, 2, 1), (NONE, NONE, (0, 1), (1, 1)), (1,) * 4), (tensor(*SHAPE),)),
    (ReduceWindow(ReduceOp.ADD, (1, 3, 1, 1), (1,) * 4, (NONE, (1, 1), NONE, NONE), (1,) * 4), (tensor(*SHAPE),)),
    (SelectAndScatter((1, 1, 2, 3), (1, 1, 2, 1), (NONE, NONE, (0, 1), (1, 1))), (tensor(*SHAPE), tensor(2, 16, 3, 5))),
    (SelectAndScatter((1, 3, 1, 1), (1,) * 4, (NONE, (1, 1), NONE, NONE)), (tensor(*SHAPE), tensor(*SHAPE))),
    (Concat(1), (tensor(*SHAPE), tensor(2, BLOCK, 6, 5), tensor(2, 3, 6, 5))),
    (Concat(1), (tensor(2, 3, 6, 5), tensor(*SHAPE))),
    (Reduce(ReduceOp.ADD, (2, 3)), (tensor(*SHAPE),)),
    (Reduce(ReduceOp.ADD, (1,)), (tensor(*SHAPE),)),
    *((Reduce(ReduceOp.MIN, axes), (tensor(2, 12, 6, 5),)) for axes in ((1,), (0, 2, 3), (3,), (0, 1, 2, 3))),
    *((Transpose(order), (tensor(2, 12, 6, 5),)) for order in ((0, 2, 3, 1), (0, 1, 3, 2), (1, 0, 3, 2))),
    (Reverse((2, 3)), (tensor(2, 12, 6, 5),)),
    (Reverse((0, 1)), (tensor(*SHAPE),)),
    (Slice((0, 8, 1, 0), (2, 13, 6, 5), (1, 1, 2, 1)), (tensor(*SHAPE),)),
    (Slice((0, 3, 0, 0), (2, 16, 6, 5), (1,) * 4), (tensor(*SHAPE),)),
    (Pad((0, 0, 1, -1), (1, 0, 0, 2), (0,) * 4), (tensor(2, 12, 6, 5), SCALAR)),
    (Pad((0,) * 4, (0,) * 4, (0, 0, 1, 0)), (tensor(2, 12, 6, 5), SCALAR)),
    (Pad((0, 1, 0, 0), (0,) * 4, (0,) * 4), (tensor(*SHAPE), SCALAR)),
    (Broadcast(SHAPE, (0, 1, 2, 3)), (tensor(2, 16, 1, 1),)),
    (Constant(np.ones(SHAPE, np.float32)), ()),
    (Iota(SHAPE, DType.F32, 1), ()),
]


def test_every_rule_has_samples() -> None:
    """Except relayouts of inputs in blocks, which tests/passes/test_assign_layouts.py has."""
    assert {type(op) for op, _ in SAMPLES} == set(LAYOUT_RULES) - {Relayout}


def _cases() -> Iterator[tuple[Op, tuple[TensorType, ...], Choice]]:
    for op, types in SAMPLES:
        b = CoreBuilder()
        for choice in choices_of(b.node(op, *(b.input(t) for t in types)), BLOCK):
            yield op, types, choice


@pytest.mark.parametrize(("op", "types", "choice"), [*_cases()], ids=lambda part: str(part)[:60])
def test_every_choice_runs(op: Op, types: tuple[TensorType, ...], choice: Choice) -> None:
    b = CoreBuilder()
    inputs = [b.input(t) for t in types]
    stored = [_blocked(b, v) if f is BLOCKS else v for v, f in zip(inputs, choice.operands, strict=True)]
    (out,) = op.infer(*types)
    layout = Layout(BLOCK, ((1, 0), (0, 2))[: out.rank - 2]) if choice.result is BLOCKS else None
    result = in_layout(b, op, layout, *stored)
    graph = b.build([b.add_node(Relayout(None), result) if layout else result])
    arrays = random_inputs(graph)
    program = compile_graph(graph, TARGET)
    for found, expected in zip(run_program(program, arrays), evaluate_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


def _blocked(b: CoreBuilder, value: Value) -> Value:
    return b.add_node(Relayout(Layout(BLOCK, ((1, 2), (2, 1)))), value)
