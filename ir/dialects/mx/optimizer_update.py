"""The update of one weight by an optimizer's rule, as a node that replaces its operands in place.

Its numbers (learning rate, decay, ...) are operands too, so a program of updates serves all their values. Programs of
several weights are combinations of these (`ir/program_combination.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...graph import Graph, GraphBuilder, Value
from ...types import DType, TensorType
from .operator import Operator, Results
from .optimizer_rules import RULES, Rule, Step, wide
from .parameters import Bool, Text

if TYPE_CHECKING:
    from .builder import MxBuilder


class WeightUpdate(Operator):
    """Updates a weight and an optimizer's states by a gradient. It is no operator of MXNet, and has no result.

    The operands are the weight, its gradient, the states of the rule and its numbers. With `mixed` the weight has 16
    bits, and a float32 copy of it follows the states.

    Args:
        rule: The name of the rule.
        mixed: True for a weight with a float32 copy.
    """

    name = "mx._weight_update"
    outputs = ()
    rule: Text
    mixed: Bool = False

    @property
    def declared(self) -> Rule:
        return RULES[self.rule]

    def input_names(self, passed: int | None = None) -> tuple[str, ...]:
        copy = ("weight32",) if self.mixed else ()
        return ("weight", "grad", *self.declared.states, *copy, *self.declared.numbers)

    def require_one_dtype(self, dtypes: Sequence[DType | None]) -> None:
        """States, copies and numbers have dtypes of their own."""

    def require_shapes(self, types: Sequence[TensorType]) -> None:
        """ValueError unless gradient, states and copy have the weight's shape."""
        rule, names = self.declared, self.input_names()
        alike = ("grad", "weight32", *(() if rule.reads_rows else rule.states))
        for name, t in zip(names, types, strict=False):
            if name in alike and t.shape != types[0].shape:
                raise ValueError(f"{name} has the shape {t.shape}, the weight {types[0].shape}")

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        rule, named = self.declared, dict(zip(self.input_names(), inputs, strict=True))
        dtype = wide(named["weight"].type.dtype)
        rounded, grad = b.cast(named["weight"], dtype), b.cast(named["grad"], dtype)
        weight = named["weight32"] if self.mixed else rounded
        states = {name: b.cast(named[name], dtype) for name in rule.states}
        step = Step(b, weight, grad, states, named.__getitem__, rounded=rounded)
        new = rule.formula(step)
        if self.mixed:
            b.update(named["weight32"], new)
        b.update(named["weight"], b.cast(new, named["weight"].type.dtype))
        for name, value in step.new.items():
            b.update(named[name], b.cast(value, named[name].type.dtype))
        return ()


def update_graph(op: WeightUpdate, types: Sequence[TensorType]) -> Graph:
    """The graph of one update of arrays of these types: weight, gradient, states, copy; then the numbers.

    If the rule depends on elements alone, the arrays have one axis, so that shapes of equal size share a program.
    GraphError for shapes that do not fit.
    """
    b = GraphBuilder(f"{op.rule}_update")
    numbers = [TensorType((), DType.F32)] * len(op.declared.numbers)
    operands = [b.input(t, name) for t, name in zip((*types, *numbers), op.input_names(), strict=True)]
    b.node(op, *operands, name=f"{op.rule}_update")
    return b.build(())
