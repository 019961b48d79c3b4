"""Builds loops, branches and accesses to elements of tensors at the insertion point of upstream's bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from importlib import import_module
from typing import Any

from ...stablehlo.upstream import Upstream
from ..destinations import new_buffer

Values = Sequence[Any]


class Builder:
    """The operations that the rules of `legalize` are written in. An index is a value or a number."""

    def __init__(self, upstream: Upstream) -> None:
        self.ir = upstream.ir
        self.stablehlo = upstream.stablehlo
        self._arith, self._scf, self._tensor = (
            import_module(f"torch_mlir.dialects.{name}") for name in ("arith", "scf", "tensor")
        )

    # -- indices

    def index(self, x: Any) -> Any:
        """A constant, if it is not a value already."""
        return self._arith.constant(self.ir.IndexType.get(), x) if isinstance(x, int) else x

    def add(self, x: Any, y: Any) -> Any:
        return self._arith.addi(self.index(x), self.index(y))

    def sub(self, x: Any, y: Any) -> Any:
        return self._arith.subi(self.index(x), self.index(y))

    def mul(self, x: Any, y: Any) -> Any:
        return self._arith.muli(self.index(x), self.index(y))

    def least(self, x: Any, y: Any) -> Any:
        return self._arith.minsi(self.index(x), self.index(y))

    def greatest(self, x: Any, y: Any) -> Any:
        return self._arith.maxsi(self.index(x), self.index(y))

    def shift_left(self, x: Any, y: Any) -> Any:
        return self._arith.shli(self.index(x), self.index(y))

    def less(self, x: Any, y: Any) -> Any:
        return self._arith.cmpi(self._arith.CmpIPredicate.slt, self.index(x), self.index(y))

    def equal(self, x: Any, y: Any) -> Any:
        return self._arith.cmpi(self._arith.CmpIPredicate.eq, self.index(x), self.index(y))

    def inside(self, x: Any, extent: int) -> Any:
        """True if 0 <= x < extent."""
        return self._arith.cmpi(self._arith.CmpIPredicate.ult, self.index(x), self.index(extent))

    def to_index(self, x: Any) -> Any:
        """The index of a signless integer, which is signed."""
        return self._arith.index_cast(self.ir.IndexType.get(), x)

    def to_i32(self, x: Any) -> Any:
        """The signless integer of 32 bits of an index."""
        return self._arith.index_cast(self.ir.IntegerType.get_signless(32), x)

    def to_number(self, condition: Any) -> Any:
        """The index 1 or 0."""
        return self._arith.index_castui(self.ir.IndexType.get(), condition)

    # -- truth and choice

    def truth(self, value: bool) -> Any:
        return self._arith.constant(self.ir.IntegerType.get_signless(1), int(value))

    def both(self, *conditions: Any) -> Any:
        return reduce(self._arith.andi, conditions)

    def either(self, x: Any, y: Any) -> Any:
        return self._arith.ori(x, y)

    def negation(self, condition: Any) -> Any:
        return self._arith.xori(condition, self.truth(True))

    def select(self, condition: Any, x: Any, y: Any) -> Any:
        """An index or an element."""
        return self._arith.select(condition, self.index(x), self.index(y))

    def operation(self, name: str, type: Any, operands: Values = (), attributes: Any = None) -> Any:
        """The result of an operation that has one."""
        return self.ir.Operation.create(name, [type], list(operands), attributes).result

    def of(self, name: str, x: Any, y: Any) -> Any:
        """An operation of StableHLO on two tensors of one type."""
        return self.operation(f"stablehlo.{name}", x.type, [x, y])

    # -- attributes and types

    def integers(self, op: Any, name: str, default: Sequence[int]) -> list[int]:
        """The numbers of an attribute, or those that it has if it is absent."""
        return [int(n) for n in op.attributes[name]] if name in op.attributes else list(default)

    def signless(self, x: Any) -> Any:
        """A tensor of integers, unsigned ones as 64 bits of a signed integer."""
        if not self.ir.IntegerType(x.type.element_type).is_unsigned:
            return x
        wide = self.ir.RankedTensorType.get(x.type.shape, self.ir.IntegerType.get_signless(64))
        return self.operation("stablehlo.convert", wide, [x])

    # -- elements

    def empty(self, shape: Sequence[int], element: Any) -> Any:
        return new_buffer(self.ir, self.ir.RankedTensorType.get(list(shape), element))

    def full(self, element: Any, type: Any) -> Any:
        """A tensor with an element everywhere."""
        axes = {"broadcast_dimensions": self.ir.DenseI64ArrayAttr.get([])}
        return self.operation("stablehlo.broadcast_in_dim", type, [self.scalar(element)], axes)

    def extract(self, tensor: Any, at: Values = ()) -> Any:
        return self._tensor.extract(tensor, [self.index(i) for i in at])

    def insert(self, element: Any, tensor: Any, at: Values) -> Any:
        return self._tensor.insert(element, tensor, [self.index(i) for i in at])

    def insert_slice(self, part: Any, tensor: Any, offsets: Sequence[int]) -> Any:
        ones = [1] * len(offsets)
        return self._tensor.insert_slice(part, tensor, [], [], [], offsets, list(part.type.shape), ones)

    def scalar(self, element: Any) -> Any:
        """The tensor of rank 0 with an element."""
        return self._tensor.from_elements(self.ir.RankedTensorType.get([], element.type), [element])

    # -- control flow

    def loop(self, begin: Any, end: Any, carried: Values, body: Callable[[Any, Values], Values], step: Any = 1) -> Any:
        """The values carried through a loop; `body` gives the following ones from an index and the values."""
        op = self._scf.ForOp(self.index(begin), self.index(end), self.index(step), list(carried))

        def compute(at: Any, *values: Any) -> Values:
            return body(at, values)

        self.fill(op.body, compute, self._scf.YieldOp)
        return list(op.results)

    def nest(
        self, extents: Sequence[int], carried: Values, body: Callable[[Values, Values], Values], outer: Values = ()
    ) -> Any:
        """As `loop`, for all points of an index space in row-major order."""
        if not extents:
            return body(outer, carried)
        return self.loop(0, extents[0], carried, lambda at, values: self.nest(extents[1:], values, body, (*outer, at)))

    def branch(self, condition: Any, then: Callable[[], Values], otherwise: Callable[[], Values], types: Values) -> Any:
        op = self._scf.IfOp(condition, list(types), has_else=True)
        for block, compute in ((op.then_block, then), (op.else_block, otherwise)):
            self.fill(block, compute, self._scf.YieldOp)
        return list(op.results)

    def when(self, conditions: Values, then: Callable[[], Values], otherwise: Values) -> Any:
        """The results of `then` if all conditions are true, else the other values."""
        if not conditions:
            return then()
        return self.branch(self.both(*conditions), then, lambda: otherwise, [v.type for v in otherwise])

    def switch(self, index: Any, cases: Sequence[Callable[[], Values]], types: Values, number: int = 0) -> Any:
        """The values of a case; those of the last one if no case has the index. It is a chain of branches: what a
        result of `scf.index_switch` aliases is overwritten by bufferization."""
        case, *others = cases
        if not others:
            return case()

        def rest() -> Values:
            return self.switch(index, others, types, number + 1)

        return self.branch(self.equal(index, number), case, rest, types)

    def repeat(self, carried: Values, condition: Callable[..., Any], body: Callable[..., Values]) -> Any:
        """The values carried through a loop that runs while the condition on them is true."""
        types = [v.type for v in carried]
        op = self._scf.WhileOp(types, list(carried))
        before, after = (region.blocks.append(*types) for region in op.regions)
        with self.ir.InsertionPoint(before):
            self._scf.ConditionOp(condition(*before.arguments), before.arguments)
        self.fill(after, body, self._scf.YieldOp)
        return list(op.results)

    def fill(self, block: Any, compute: Callable[..., Values], terminator: Callable[[Values], Any]) -> None:
        """Add the operations of a function of the block's arguments, and a terminator with its results."""
        with self.ir.InsertionPoint(block):
            terminator(list(compute(*block.arguments)))

    def moved(self, region: Any, arguments: Values) -> Any:
        """The results of a region with one block, whose operations move to the insertion point."""
        block = region.blocks[0]
        for argument, value in zip(block.arguments, arguments, strict=True):
            argument.replace_all_uses_with(value)
        point = self.ir.InsertionPoint.current
        *operations, last = block.operations
        for op in operations:
            op.detach_from_parent()
            point.insert(op)
        return list(last.operands)

    def applied(self, region: Any, elements: Values) -> Any:
        """As `moved`, for a region on tensors of rank 0: its results for elements are elements."""
        return [self.extract(v) for v in self.moved(region, [self.scalar(x) for x in elements])]
