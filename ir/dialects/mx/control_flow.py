"""Loops and conditions whose bodies are subgraphs: the operators of `contrib.foreach`, `while_loop` and `cond`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from ...graph import Effect, Value
from ...types import DType, TensorType
from .declared import Named
from .operator import Operator, operator
from .parameters import Int, Ints, Text
from .shapes import UNKNOWN, PartialShape, unify, unify_at
from .subgraph import BodyBuilder, Subgraph, read_subgraphs, with_legacy_shapes

if TYPE_CHECKING:
    from .builder import MxBuilder


class ControlFlow(Operator):
    """An operator with subgraphs.

    Args:
        num_args: Number of inputs, subgraphs included.
        subgraphs: The subgraphs as text.
    """

    inputs = ("data*",)
    num_args: Int
    num_results: Annotated[Int, Named("num_outputs")]
    subgraphs: Text = ""

    expected: ClassVar[int] = 1
    """The required number of subgraphs."""

    def check(self) -> None:
        if len(self.bodies) != type(self).expected:
            raise ValueError(f"{self.mx_name()} requires {type(self).expected} subgraphs, got {len(self.bodies)}")

    def variadic_count(self, passed: int | None) -> int:
        return self.num_args - len(self.bodies) if passed is None else passed

    def variadic_names(self, count: int) -> list[str]:
        return [f"data{i}" for i in range(count)]

    def output_names(self) -> tuple[str, ...]:
        return ("output",) if self.num_results == 1 else tuple(f"output{i}" for i in range(self.num_results))

    @property
    def bodies(self) -> tuple[Subgraph, ...]:
        """The subgraphs."""
        return read_subgraphs(self.subgraphs)

    def effects(self) -> frozenset[Effect]:
        return frozenset[Effect]().union(*(use.op.effects() for body in self.bodies for use in body.uses))

    def with_legacy_shapes(self) -> Operator:
        text = with_legacy_shapes(self.subgraphs)
        return self if text == self.subgraphs else type(self).parse({**self.attrs(), "subgraphs": text})

    def check_locs(self, name: str, count: int, limit: int) -> None:
        """ValueError unless the parameter `name` lists `count` positions below `limit`."""
        positions = getattr(self, name)
        if len(positions) != count or any(not 0 <= n < limit for n in positions):
            raise ValueError(f"{self.mx_name()}: {name}={positions}: requires {count} positions below {limit}")


def _slice_shape(shape: PartialShape) -> PartialShape:
    """The shape of one slice along the first axis; (1,) for a slice of a vector, because MXNet has no scalars."""
    return None if shape is None else shape[1:] or (1,)


def _unify_all(target: list[PartialShape], positions: Sequence[int], shapes: Sequence[PartialShape]) -> None:
    for position, shape in zip(positions, shapes, strict=True):
        unify_at(target, position, shape)


@operator("_foreach")
class Foreach(ControlFlow):
    """Runs a subgraph over the slices of arrays along the first axis and passes states from step to step.
    `nd.contrib.foreach` and `sym.contrib.foreach` take a function.

    Args:
        data: Arrays, states, and other values that the subgraph reads.
        num_outputs: Number of results: outputs and last states.
        num_out_data: Number of outputs.
        in_state_locs: Positions of the states among the subgraph's inputs.
        in_data_locs: Positions of the slices among the subgraph's inputs.
        remain_locs: Positions of the other values among the subgraph's inputs.
    Returns:
        The outputs of all steps, stacked, and the last states.
    """

    num_out_data: Int
    in_state_locs: Ints = ()
    in_data_locs: Ints = ()
    remain_locs: Ints = ()

    def check(self) -> None:
        super().check()
        body = self.bodies[0]
        positions = sorted((*self.in_data_locs, *self.in_state_locs, *self.remain_locs))
        if positions != list(range(len(body.inputs))):
            raise ValueError(f"_foreach: the positions {positions} do not match the body's {len(body.inputs)} inputs")
        if len(body.outputs) != self.num_results or len(self.in_state_locs) != self.num_results - self.num_out_data:
            raise ValueError(f"_foreach: {len(body.outputs)} results of the body do not fit the operator's parameters")

    @property
    def order(self) -> tuple[int, ...]:
        """The body's input for each operand."""
        return (*self.in_data_locs, *self.in_state_locs, *self.remain_locs)

    def _infer(self, inputs: Sequence[PartialShape], dtypes: Sequence[Any], outs: Any, out_dtypes: Any) -> Any:
        body = self.bodies[0]
        count = len(body.inputs)
        shapes: list[Any] = [None] * count
        kinds: list[Any] = [None] * count
        for i, position in enumerate(self.order):
            shapes[position] = _slice_shape(inputs[i]) if i < len(self.in_data_locs) else inputs[i]
            kinds[position] = dtypes[i]
        return body.infer(shapes, kinds, outs, out_dtypes)

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        body = self.bodies[0]
        data, stacked = len(self.in_data_locs), self.num_out_data
        states = len(self.in_state_locs)
        for i in range(states):
            inputs[data + i] = outputs[stacked + i] = unify(inputs[data + i], outputs[stacked + i])
        outs = [*map(_slice_shape, outputs[:stacked]), *outputs[stacked:]]
        inferred = self._infer(inputs, [None] * len(inputs), outs, ())
        lengths = [s[0] for s in (*inputs[:data], *outputs[:stacked]) if s is not None]
        length = next((n for n in lengths if n is not UNKNOWN), UNKNOWN)
        for i, position in enumerate(self.order):
            shape = inferred.shapes.get(body.inputs[position])
            if shape is None:
                continue
            whole = shape if i >= data else inputs[i] if _is_vector(inputs[i]) else (length, *shape)
            unify_at(inputs, i, whole)
        for i, number in enumerate(body.outputs):
            shape = inferred.shapes.get(number)
            if shape is not None:
                unify_at(outputs, i, (length, *shape) if i < stacked else shape)
        for i in range(states):
            inputs[data + i] = outputs[stacked + i] = unify(inputs[data + i], outputs[stacked + i])

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        body = self.bodies[0]
        dtypes = self._infer([None] * len(inputs), inputs, (), outputs).dtypes
        inputs[:] = [d or dtypes.get(body.inputs[p]) for d, p in zip(inputs, self.order, strict=True)]
        outputs[:] = [d or dtypes.get(n) for d, n in zip(outputs, body.outputs, strict=True)]
        data, stacked = len(self.in_data_locs), self.num_out_data
        for i in range(len(self.in_state_locs)):
            inputs[data + i] = outputs[stacked + i] = inputs[data + i] or outputs[stacked + i]

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        outputs: list[DType | None] = [None] * self.num_results
        self.complete_dtypes(list(inputs), outputs)
        return outputs

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        data, states = len(self.in_data_locs), len(self.in_state_locs)
        scanned, carried, rest = inputs[:data], inputs[data : data + states], inputs[data + states :]
        if not scanned:
            raise ValueError("foreach requires data: its number of steps is unknown")
        length = scanned[0].type.shape[0]
        if any(v.type.shape[0] != length for v in scanned):
            raise ValueError(f"the data of foreach have different lengths {[v.type.shape[0] for v in scanned]}")
        inner = BodyBuilder("foreach_step", b)
        own = [inner.input(v.type) for v in carried]
        slices = [inner.input(TensorType(v.type.shape[1:], v.type.dtype)) for v in scanned]
        invariants = [inner.input(v.type) for v in rest]
        placed: list[Any] = [None] * len(self.order)
        stepped = [inner.reshape(v, v.type.shape or (1,)) for v in slices]
        for position, value in zip(self.order, (*stepped, *own, *invariants), strict=True):
            placed[position] = value
        computed = self.bodies[0].apply(inner, placed)
        outs, new = computed[: self.num_out_data], computed[self.num_out_data :]
        for old, value in zip(own, new, strict=True):
            _require_same(old, value)
        if not length:
            return (*(b.full((0, *v.type.shape), 0, v.type.dtype) for v in outs), *carried)
        step = inner.build_with_key([*new, *outs], states + data)
        keys = [_keys(b, length, inner.draws)] if inner.draws else []
        results = b.scan(step, carried, [*scanned, *keys], rest, length)
        return (*results[states:], *results[:states])


def _is_vector(shape: PartialShape) -> bool:
    return shape is not None and len(shape) == 1


def _require_same(old: Value, new: Value) -> None:
    if (old.type.shape, old.type.dtype) != (new.type.shape, new.type.dtype):
        raise ValueError(f"a state is {old.type.description} at first and {new.type.description} after a step")


def _keys(b: MxBuilder, length: int, draws: int) -> Value:
    """(length, 4): a key for each step, which draws `draws` times."""
    offsets = np.zeros((length, 4), np.uint32)
    offsets[:, 3] = np.arange(length, dtype=np.uint32) * np.uint32(draws)
    base = b.draw_keys(length * draws)
    return b.add(b.broadcast_along(base, (length, 4), 1), b.constant(offsets))


def _as_predicate(b: MxBuilder, value: Value, what: str) -> Value:
    """BOOL: true if the only element of a tensor is not 0."""
    if value.type.size != 1:
        raise ValueError(f"{what} must have one element, got shape {value.type.shape}")
    flat = b.reshape(value, ())
    return b.ne(flat, b.full((), 0, value.type.dtype))


class Branching(ControlFlow):
    """Base of loops and conditions with several subgraphs, each of which reads a selection of the operands."""

    def locs(self) -> tuple[tuple[int, ...], ...]:
        """For each subgraph, the positions of the operands that are its inputs."""
        raise NotImplementedError

    def _infer_each(
        self, inputs: Sequence[PartialShape], dtypes: Sequence[DType | None], outs: Any, out_dtypes: Any
    ) -> list[Any]:
        """Infers the types of each subgraph; `outs` and `out_dtypes` are known about each subgraph's results."""
        return [
            g.infer([inputs[n] for n in at], [dtypes[n] for n in at], out, kinds)
            for g, at, out, kinds in zip(self.bodies, self.locs(), outs, out_dtypes, strict=True)
        ]

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        outputs: list[DType | None] = [None] * self.num_results
        self.complete_dtypes(list(inputs), outputs)
        return outputs


@operator("_cond")
class Cond(Branching):
    """The results of one of two subgraphs, selected by the result of a third. `nd.contrib.cond` and `sym.contrib.cond`
    take functions.

    Args:
        data: The values that the subgraphs read.
        num_outputs: Number of results.
        cond_input_locs: Positions in data of the inputs of the condition.
        then_input_locs: Positions in data of the inputs of the subgraph that runs if the condition is not 0.
        else_input_locs: Positions in data of the inputs of the other subgraph.
    """

    expected = 3
    cond_input_locs: Ints = ()
    then_input_locs: Ints = ()
    else_input_locs: Ints = ()

    def locs(self) -> tuple[tuple[int, ...], ...]:
        return self.cond_input_locs, self.then_input_locs, self.else_input_locs

    def check(self) -> None:
        super().check()
        names = ("cond_input_locs", "then_input_locs", "else_input_locs")
        for name, g in zip(names, self.bodies, strict=True):
            self.check_locs(name, len(g.inputs), self.num_args - 3)
        if [len(g.outputs) for g in self.bodies] != [1, self.num_results, self.num_results]:
            raise ValueError("_cond: the subgraphs' results do not fit the operator's parameters")

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        nothing = [None] * len(inputs)
        for g, at, inferred in zip(
            self.bodies,
            self.locs(),
            self._infer_each(inputs, nothing, [(), outputs, outputs], [()] * 3),
            strict=True,
        ):
            _unify_all(inputs, at, [inferred.shapes.get(n) for n in g.inputs])
            if g is not self.bodies[0]:
                _unify_all(outputs, range(len(outputs)), [inferred.shapes.get(n) for n in g.outputs])

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        nothing: list[PartialShape] = [None] * len(inputs)
        each = self._infer_each(nothing, inputs, [()] * 3, [(), outputs, outputs])
        for i, (g, at, inferred) in enumerate(zip(self.bodies, self.locs(), each, strict=True)):
            for position, number in zip(at, g.inputs, strict=True):
                inputs[position] = inputs[position] or inferred.dtypes.get(number)
            if i:
                outputs[:] = [d or inferred.dtypes.get(n) for d, n in zip(outputs, g.outputs, strict=True)]

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        condition, *branches = self.bodies
        (value,) = condition.apply(b, [inputs[n] for n in self.cond_input_locs])
        predicate = _as_predicate(b, value, "the condition of cond")
        built: list[tuple[BodyBuilder, list[Value]]] = []
        for g, at in zip(branches, self.locs()[1:], strict=True):
            inner = BodyBuilder("branch", b)
            own = [inner.input(v.type) for v in inputs]
            built.append((inner, g.apply(inner, [own[n] for n in at])))
        draws = max(inner.draws for inner, _ in built)
        b.begin_operator()
        key = [b.draw_keys(draws)] if draws else []
        then, otherwise = (inner.build_with_key(results, len(inputs), bool(draws)) for inner, results in built)
        return b.cond(predicate, then, otherwise, *inputs, *key)


@operator("_while_loop")
class WhileLoop(Branching):
    """Runs a subgraph on variables while another subgraph returns a value other than 0. `nd.contrib.while_loop` and
    `sym.contrib.while_loop` take functions.

    Args:
        data: The variables and other values that the subgraphs read.
        num_outputs: Number of results: outputs and last variables.
        num_out_data: Number of outputs.
        max_iterations: Largest number of steps.
        cond_input_locs: Positions in data of the inputs of the condition.
        func_input_locs: Positions in data of the inputs of the step.
        func_var_locs: Positions of the variables among the inputs of the step.
    Returns:
        The outputs of the steps, stacked, with zeros for steps that did not run, and the last variables.
    """

    expected = 2
    num_out_data: Int
    max_iterations: Int
    cond_input_locs: Ints = ()
    func_input_locs: Ints = ()
    func_var_locs: Ints = ()

    def locs(self) -> tuple[tuple[int, ...], ...]:
        return self.cond_input_locs, self.func_input_locs

    def check(self) -> None:
        super().check()
        condition, body = self.bodies
        self.check_locs("cond_input_locs", len(condition.inputs), self.num_args - 2)
        self.check_locs("func_input_locs", len(body.inputs), self.num_args - 2)
        self.check_locs("func_var_locs", self.num_results - self.num_out_data, len(body.inputs))
        if len(condition.outputs) != 1 or len(body.outputs) != self.num_results or self.max_iterations < 0:
            raise ValueError("_while_loop: the subgraphs' results do not fit the operator's parameters")

    @property
    def variables(self) -> tuple[int, ...]:
        """The operand that is the initial value of each variable."""
        return tuple(self.func_input_locs[n] for n in self.func_var_locs)

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        stacked = self.num_out_data
        self._tie(inputs, outputs)
        outs = [*(None if s is None else s[1:] for s in outputs[:stacked]), *outputs[stacked:]]
        each = self._infer_each(inputs, [None] * len(inputs), [(), outs], [(), ()])
        for g, at, inferred in zip(self.bodies, self.locs(), each, strict=True):
            _unify_all(inputs, at, [inferred.shapes.get(n) for n in g.inputs])
        for i, number in enumerate(self.bodies[1].outputs):
            shape = each[1].shapes.get(number)
            if shape is not None:
                unify_at(outputs, i, (self.max_iterations, *shape) if i < stacked else shape)
        self._tie(inputs, outputs)

    def _tie(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        for i, n in enumerate(self.variables, self.num_out_data):
            inputs[n] = outputs[i] = unify(inputs[n], outputs[i])

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        each = self._infer_each([None] * len(inputs), inputs, [(), ()], [(), outputs])
        for g, at, inferred in zip(self.bodies, self.locs(), each, strict=True):
            for position, number in zip(at, g.inputs, strict=True):
                inputs[position] = inputs[position] or inferred.dtypes.get(number)
        outputs[:] = [d or each[1].dtypes.get(n) for d, n in zip(outputs, self.bodies[1].outputs, strict=True)]
        for i, n in enumerate(self.variables, self.num_out_data):
            inputs[n] = outputs[i] = inputs[n] or outputs[i]

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        begun = self._goes_on(b, inputs)
        return self._scan(b, begun, inputs) if self.num_out_data else self._while(b, begun, inputs)

    def _goes_on(self, b: MxBuilder, operands: Sequence[Value]) -> Value:
        (value,) = self.bodies[0].apply(b, [operands[n] for n in self.cond_input_locs])
        return _as_predicate(b, value, "the condition of while_loop")

    def _step(self, b: MxBuilder, operands: Sequence[Value]) -> tuple[Value, list[Value], list[Value]]:
        """BOOL whether the loop continues after one more step, the operands then, and the outputs of the step."""
        results = self.bodies[1].apply(b, [operands[n] for n in self.func_input_locs])
        after = list(operands)
        for n, value in zip(self.variables, results[self.num_out_data :], strict=True):
            _require_same(operands[n], value)
            after[n] = value
        return self._goes_on(b, after), after, results[: self.num_out_data]

    def _scan(self, b: MxBuilder, begun: Value, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """`max_iterations` steps; steps after the loop's exit pass the variables on and output zeros."""
        taken = BodyBuilder("taken", b)
        own = [taken.input(v.type) for v in inputs]
        going, after, outs = self._step(taken, own)
        then = taken.build_with_key([going, *(after[n] for n in self.variables), *outs], len(inputs))
        idle = BodyBuilder("idle", b)
        same = [idle.input(v.type) for v in then.inputs]
        zeros = [idle.full(v.type.shape, 0, v.type.dtype) for v in outs]
        otherwise = idle.build([idle.full((), 0, DType.BOOL), *(same[n] for n in self.variables), *zeros])
        step = BodyBuilder("while_step", b)
        active = step.input(begun.type)
        rest = [n for n in range(len(inputs)) if n not in self.variables]
        states = {n: step.input(inputs[n].type) for n in self.variables}
        key = [step.input(v.type) for v in then.inputs[len(inputs) :]]
        states.update({n: step.input(inputs[n].type) for n in rest})
        body = step.build(step.cond(active, then, otherwise, *(states[n] for n in range(len(inputs))), *key))
        carried = [begun, *(inputs[n] for n in self.variables)]
        b.begin_operator()
        keys = [_keys(b, self.max_iterations, taken.draws)] if key else []
        results = b.scan(body, carried, keys, [inputs[n] for n in rest], self.max_iterations)
        return (*results[len(carried) :], *results[1 : len(carried)])

    def _while(self, b: MxBuilder, begun: Value, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """A loop without outputs, which stops at its exit even before `max_iterations`."""
        inner = BodyBuilder("while_step", b)
        count, _ = inner.input(TensorType((), DType.I64)), inner.input(begun.type)
        own = [inner.input(v.type) for v in inputs]
        goes_on, after, _ = self._step(inner, own)
        count = inner.add(count, 1)
        more = inner.and_(goes_on, inner.lt(count, self.max_iterations))
        keyed = inner.draws > 0
        results = [count, more, *after]
        if keyed:
            results.append(inner.advance_key(inner.input_key(), inner.draws))
        body = inner.build(results)
        test = BodyBuilder("goes_on", b)
        condition = test.build([[test.input(v.type) for v in body.inputs][1]])
        b.begin_operator()
        key = [b.draw_keys(inner.draws)] if keyed else []
        first = b.and_(begun, b.full((), self.max_iterations > 0, DType.BOOL))
        state = b.full((), 0, DType.I64), first, *inputs, *key
        results = b.while_(condition, body, *state, limit=self.max_iterations)
        return tuple(results[2 + n] for n in self.variables)
