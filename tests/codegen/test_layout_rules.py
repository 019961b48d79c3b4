"""Every entry of the layout table compiles: kernels read and write the layouts that it lists for each primitive."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from compiled import run_program
from layout_samples import LAYOUT_SAMPLES
from mxforge.codegen.driver import compile_graph
from mxforge.ir.dialects.core import CoreBuilder, Relayout, evaluate_graph
from mxforge.ir.graph import Op, Value
from mxforge.ir.types import Layout, TensorType
from mxforge.passes.layout_rules import BLOCKS, LAYOUT_RULES, Choice, choices_of
from mxforge.runtime.host.machine import host_target
from rewriting import in_layout, random_inputs

TARGET = host_target(2)
BLOCKED = TARGET.blocked_layout
BLOCK = TARGET.channel_block


def test_every_rule_has_samples() -> None:
    """Except relayouts of inputs in blocks, which tests/passes/test_assign_layouts.py has."""
    assert {type(op) for op, _ in LAYOUT_SAMPLES} == set(LAYOUT_RULES) - {Relayout}


def _cases() -> Iterator[tuple[Op, tuple[TensorType, ...], Choice]]:
    for op, types in LAYOUT_SAMPLES:
        b = CoreBuilder()
        for choice in choices_of(b.node(op, *(b.input(t) for t in types)), BLOCKED):
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
