"""Lowers branches and loops of a graph to steps of its program.

The pass `lower-regions` lowered the nested graphs. They are compiled to programs of their own, with the same emitter,
and their steps become the bodies of `Loop` and `Branch` (`ir/program.py`) on places of the outer program. So control
flow needs nothing of a target. Each node becomes one step. Its memory, that of the nested programs and the next state
of a loop, is the workspace of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..ir.assign_offsets import ALIGNMENT
from ..ir.dialects.core import Cond, Scan, While
from ..ir.graph import Graph, Node, Value
from ..ir.program import UNBOUNDED, Branch, Copy, Fill, Loop, Place, Program, Space, Step
from ..ir.program_rewrite import move_steps, name_steps
from ..ir.symbolic import deferred, is_symbolic
from ..ir.types import TensorType
from ..passes.manager import Context
from ..passes.plan_memory import share_memory
from .assemble import assemble
from .compiler import KernelCompiler, PackedInputs, is_aligned_size
from .emission import Emission, Packing


def compile_control(node: Node, outer: KernelCompiler) -> tuple[Emission, Control]:
    """The steps of a branch or a loop, and what they need: packed operands and a workspace.

    A loop whose length depends on data cannot call users' functions: if one failed, the loop might never terminate.
    """
    of_unknown_length = outer.of_unknown_length or isinstance(node.op, While)
    aligned = _aligned_operands(node, outer)
    compiled = [_compile(graph, outer, of_unknown_length, aligned) for graph in node.op.regions()]
    programs = tuple([program for program, _ in compiled])
    packs = [pack for _, packs in compiled for pack in packs]
    control = Control(node, programs)
    inputs, outputs = len(node.inputs), len(node.outputs)
    emission = Emission(
        (),
        control.workspace,
        packings=tuple((inputs + k, packing) for k, (_, packing) in enumerate(packs)),
        operands=(*range(inputs), *(position for position, _ in packs), *range(inputs, inputs + outputs)),
    )
    return emission, control


def _aligned_operands(node: Node, outer: KernelCompiler) -> tuple[list[bool], list[bool]]:
    """For each input, and for each output, of the nested graphs of a node: whether it is aligned in all steps. Rows of
    a scan follow each other without gaps, and a row of a result can hold the state."""
    inputs, results = ([outer.is_aligned(v) for v in values] for values in (node.inputs, node.outputs))
    match node.op:
        case Scan(carries=carries, scanned=scanned):
            whole = [is_aligned_size(v.type.nbytes) for v in node.outputs[:carries]]
            state = [a and b and c for a, b, c in zip(inputs, results, whole, strict=False)]
            end = carries + scanned
            rows = [
                a and _has_aligned_rows(v) for a, v in zip(inputs[carries:end], node.inputs[carries:], strict=False)
            ]
            stacked = [
                a and _has_aligned_rows(v) for a, v in zip(results[carries:], node.outputs[carries:], strict=True)
            ]
            return [*state, *rows, *inputs[end:]], [*state, *stacked]
        case While():
            return results, results
        case _:
            return inputs[1:], results


def _has_aligned_rows(value: Value) -> bool:
    return is_aligned_size(_row_bytes(value.type))


def _compile(
    graph: Graph, outer: KernelCompiler, of_unknown_length: bool, aligned: tuple[list[bool], list[bool]]
) -> tuple[Program, list[tuple[int, Packing]]]:
    """The program of a nested graph, some of whose inputs and outputs are aligned. Packed forms of parameters are
    further inputs: the position of the parameter and the form of each."""
    around = outer.context
    context = Context(around.target, replace(around.options, static_shape=True), around.settings)
    sharing = share_memory(graph)
    packed = PackedInputs(graph.inputs[i] for i in graph.parameters)
    pairs = zip((graph.inputs, graph.outputs), aligned, strict=True)
    unaligned = frozenset(
        v for values, known in pairs for v, is_aligned in zip(values, known, strict=False) if not is_aligned
    )
    compiler = KernelCompiler(
        outer.emitter.nested(), context, outer.functions, compile_control, packed, of_unknown_length, unaligned
    )
    steps = compiler.steps(graph, sharing)
    extended = replace(graph, inputs=(*graph.inputs, *packed.values.values()))
    return assemble(extended, sharing, steps, ()), [(graph.inputs.index(v), packing) for v, packing in packed.values]


def _take(sizes: Iterable[int], start: int = 0) -> tuple[list[int], int]:
    """The offsets of blocks that follow each other from `start` on, and the end of the last."""
    offsets: list[int] = []
    for nbytes in sizes:
        offsets.append(start)
        start += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return offsets, start


class Control:
    """The steps of one branch or loop. The workspace holds the memory of the nested programs, the next state of a loop,
    and the condition of a while loop."""

    def __init__(self, node: Node, programs: tuple[Program, ...]) -> None:
        self.node, self.programs = node, programs
        state = _state_of(node)
        sizes = [n for p in programs for n in (p.arena_bytes, p.prepared_bytes)]
        self._memory, top = _take([*sizes, *(v.type.nbytes for v in node.outputs[:state]), 1])
        self.workspace = top

    def lower(
        self, operands: Sequence[Place], work: Place, constants: Sequence[Place], layers: Sequence[Sequence[int]]
    ) -> Step:
        """The step. `operands` are the places of the operands, of their packed forms and of the results, `constants`
        and `layers` those of the nested programs."""
        count = len(operands) - len(self.node.outputs)
        inputs, results = operands[:count], operands[count:]
        bodies = [
            _Body(program, self._own(k, work, constants[k]), layers[k]) for k, program in enumerate(self.programs)
        ]
        offsets = self._memory[2 * len(bodies) :]
        following = [work.at(offset) for offset in offsets]
        kind = self.node.op.name.rpartition(".")[2]
        match self.node.op:
            case Cond():
                pred, *rest = inputs
                then, otherwise = ((*b.first(rest, results, 0), *b.run(rest, results, 0)) for b in bodies)
                return Branch(pred, then, otherwise, kind)
            case While():
                steps = self._while(bodies, inputs, results, following)
            case _:
                steps = _ScanSteps(self.node, bodies[0], inputs, results, following).steps()
        return Loop(tuple(steps), 1, None, kind)

    def _own(self, number: int, work: Place, constants: Place) -> dict[Space, Place]:
        arena, prepared = (work.at(offset) for offset in self._memory[2 * number : 2 * number + 2])
        return {Space.ARENA: arena, Space.PREPARED: prepared, Space.CONSTANT: constants}

    def _while(
        self, bodies: Sequence[_Body], inputs: Sequence[Place], results: Sequence[Place], following: Sequence[Place]
    ) -> list[Step]:
        """The state is stored in the results; each step computes the next state in the workspace."""
        condition, body = bodies
        values = self.node.outputs
        *following, flag = following
        unchanged = body.unchanged(len(values))
        targets = [r if j in unchanged else f for j, (r, f) in enumerate(zip(results, following, strict=True))]
        tested = condition.run(results, [flag], depth=1)
        return [
            *_copies(inputs, results, values),
            *condition.first(results, [flag]),
            *body.first(results, targets),
            *tested,
            Loop(
                (
                    *body.run(results, targets, depth=2),
                    *_copies(targets, results, values),
                    *condition.run(results, [flag], depth=2),
                ),
                UNBOUNDED,
                flag,
            ),
        ]


class _Body:
    """A nested program, whose steps run on operands at given places. Its own memory is at `own`."""

    def __init__(self, program: Program, own: dict[Space, Place], layers: Sequence[int]) -> None:
        self.program, self.own, self.layers = program, own, layers

    def first(self, inputs: Sequence[Place], outputs: Sequence[Place], depth: int = 1) -> tuple[Step, ...]:
        """The steps before the first run, inside of `depth` loops: zeros for halos, and what depends only on parameters
        and constants."""
        p, arena, prepared = self.program, self.own[Space.ARENA], self.own[Space.PREPARED]
        blocks = [
            (arena.at(p.scratch_bytes), p.arena_bytes - p.scratch_bytes),
            (prepared, p.prepared_bytes),
        ]
        fills = [Fill(start, nbytes) for start, nbytes in blocks if is_symbolic(nbytes) or nbytes]
        return (*fills, *self._on(p.prepare, inputs, outputs, depth))

    def run(self, inputs: Sequence[Place], outputs: Sequence[Place], depth: int) -> tuple[Step, ...]:
        """The steps of a run inside of `depth` loops."""
        moved = self._on(self.program.steps, inputs, outputs, depth)
        return tuple([step for step in moved if not isinstance(step, Copy) or step.target != step.source])

    def unchanged(self, state: int) -> set[int]:
        """The positions of a state that the program returns unchanged."""
        sources = {c.target.index: c.source for c in self.program.copies if c.target.space is Space.OUTPUT}
        return {i for i in range(state) if sources.get(i) == Place(Space.INPUT, i)}

    def _on(
        self, steps: Sequence[Step], inputs: Sequence[Place], outputs: Sequence[Place], depth: int
    ) -> tuple[Step, ...]:
        def move(place: Place) -> Place:
            match place.space:
                case Space.INPUT:
                    start = inputs[place.index]
                case Space.OUTPUT:
                    start = outputs[place.index]
                case _:
                    start = self.own[place.space]
            strides = start.strides
            if place.strides:
                strides = (*strides, *[0] * (depth - len(strides)), *place.strides)
            return Place(start.space, start.index, start.offset + place.offset, strides)

        return name_steps(move_steps(steps, move), self.layers, ())


class _ScanSteps:
    """The steps of a scan. Slices of operands and parts of stacked results are not copied, and the state is not either:
    a step writes the next state to the stacked result that holds it too, or alternately to the workspace and to the
    result, such that the last step writes the result."""

    def __init__(
        self,
        node: Node,
        body: _Body,
        inputs: Sequence[Place],
        results: Sequence[Place],
        work: Sequence[Place],
    ) -> None:
        assert isinstance(node.op, Scan)
        self.op, self.node, self.body, self.inputs, self.results = node.op, node, body, inputs, results
        carries = self.op.carries
        self.work = work[:carries]
        outputs = self.op.body.outputs
        kept = body.unchanged(carries)
        self.unchanged = [j in kept for j in range(carries)]
        self.stacked = [_position(outputs[carries:], v) for v in outputs[:carries]]

    def steps(self) -> list[Step]:
        n, inputs = self.op.length, self.inputs
        initial = inputs[: self.op.carries]
        values = self.node.outputs[: self.op.carries]
        pieces = [self._piece(0, 0)[j] for j in range(len(self.results) - self.op.carries)]
        first = self.body.first([*initial, *self._slices(0, 0), *self._rest], [*self.work, *pieces])
        unwritten = _copies(initial, self.results, values)
        if not is_symbolic(n) and not n:
            return unwritten
        if not self.op.carries:
            return [*first, Loop(self._step((), "result", 0, 1), n)]
        odd = deferred(_is_odd, n)
        loops = [
            Loop(self._step(initial, "result", 0), odd),
            Loop((*self._step(initial, "work", 0), *self._step("work", "result", 1)), deferred(_is_even, n)),
            Loop(
                (
                    *self._step("result", "work", 2 - odd, 2),
                    *self._step("work", "result", 3 - odd, 2),
                ),
                deferred(_pairs, n),
            ),
        ]
        steps: list[Step] = [*first]
        for loop in loops:
            if is_symbolic(loop.count) or loop.count:
                steps.append(loop)
        ends = [
            initial[j] if self.unchanged[j] else self._piece(n - 1, 0)[k] if k is not None else r
            for j, (k, r) in enumerate(zip(self.stacked, self.results, strict=False))
        ]
        steps += _copies(ends, self.results, values)
        if is_symbolic(n):
            steps.append(Loop(tuple(unwritten), deferred(_is_zero, n)))
        return steps

    @property
    def _rest(self) -> Sequence[Place]:
        return self.inputs[self.op.carries + self.op.scanned :]

    def _step(self, state: Sequence[Place] | str, target: str, number: int, stride: int = 0) -> tuple[Step, ...]:
        """Step `number`, and those `stride` steps apart, which a loop runs. The state is read from the initial state or
        from what step `number` - 1 wrote; the next state goes to the workspace or to the result."""
        if isinstance(state, str):
            before = self._written(state, number - 1, stride)
            state = [i if same else b for i, same, b in zip(self.inputs, self.unchanged, before, strict=False)]
        following = [
            i if same else w
            for i, same, w in zip(self.inputs, self.unchanged, self._written(target, number, stride), strict=False)
        ]
        operands = [*state, *self._slices(number, stride), *self._rest]
        return self.body.run(operands, [*following, *self._piece(number, stride)], depth=2)

    def _written(self, target: str, number: int, stride: int) -> list[Place]:
        """Where step `number` writes the state."""
        pieces = self._piece(number, stride)
        own = self.work if target == "work" else self.results
        return [p if k is None else pieces[k] for k, p in zip(self.stacked, own, strict=False)]

    def _slices(self, number: int, stride: int) -> list[Place]:
        first, last = self.op.carries, self.op.carries + self.op.scanned
        return self._moved(self.inputs[first:last], self.node.inputs[first:last], number, stride)

    def _piece(self, number: int, stride: int) -> list[Place]:
        first = self.op.carries
        return self._moved(self.results[first:], self.node.outputs[first:], number, stride)

    def _moved(self, places: Sequence[Place], values: Sequence[Value], number: int, stride: int) -> list[Place]:
        """The rows of values that step `number` reads or writes."""
        n, sign = self.op.length, -1 if self.op.reverse else 1
        row = n - 1 - number if self.op.reverse else number
        moved: list[Place] = []
        for place, value in zip(places, values, strict=True):
            nbytes = _row_bytes(value.type)
            at = place.at(row * nbytes)
            moved.append(replace(at, strides=(0, sign * stride * nbytes)) if stride else at)
        return moved


def _row_bytes(type: TensorType) -> int:
    """The bytes of one row of a row-major tensor."""
    size = 1
    for n in type.shape[1:]:
        size *= n
    return size * type.dtype.itemsize


def _is_odd(n: int) -> int:
    return n % 2


def _is_even(n: int) -> int:
    return int(n > 0 and n % 2 == 0)


def _pairs(n: int) -> int:
    """The pairs of steps after the first step of an odd number, or the first two of an even one."""
    return max(n - 1, 0) // 2


def _is_zero(n: int) -> int:
    return int(n == 0)


def _position(values: Sequence[Value], value: Value) -> int | None:
    return next((k for k, v in enumerate(values) if v is value), None)


def _state_of(node: Node) -> int:
    """The number of leading results that are the state of a loop, which each step replaces."""
    if isinstance(node.op, Scan):
        return node.op.carries
    return len(node.outputs) if isinstance(node.op, While) else 0


def _copies(sources: Sequence[Place], targets: Sequence[Place], values: Sequence[Value]) -> list[Step]:
    """Copies of values, without those in their place."""
    return [
        Copy(target, source, v.type.nbytes)
        for source, target, v in zip(sources, targets, values, strict=False)
        if source != target
    ]
